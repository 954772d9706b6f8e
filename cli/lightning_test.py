#!/usr/bin/env python3
"""Trains with Lightning under torchrun and under `distrun launch`, and there also on the backend shm: all print the same.

    cli/lightning_test.py build/distrun .deps/venv/bin/python3 .deps/lightning

The third argument is the folder of `cmake/setup.sh lightning`.  Takes about a minute.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RANKS = 2
LIMIT_S = 300
LIMIT_OF_END_S = 30
LIMIT_OF_BUILD_S = 1200


def train(backend):
    """What each rank does."""
    import lightning
    import torch
    from lightning.pytorch.strategies import DDPStrategy

    if backend == "shm":
        import distrun.shm  # pylint: disable=unused-import

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

        def loss(self, batch):
            inputs, labels = batch
            return torch.nn.functional.cross_entropy(self.net(inputs), labels)

        def training_step(self, batch, _):
            loss = self.loss(batch)
            self.log("loss", loss, sync_dist=True)
            return loss

        def validation_step(self, batch, _):
            self.log("validation", self.loss(batch), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lightning.seed_everything(0, verbose=False)
    inputs = torch.randn(512, 32)
    data = torch.utils.data.TensorDataset(inputs, (inputs.sum(1) > 0).long())
    net = Classifier()
    strategy = DDPStrategy(process_group_backend=backend, gradient_as_bucket_view=True)
    trainer = lightning.Trainer(accelerator="cpu", devices=RANKS, strategy=strategy, max_epochs=3, enable_progress_bar=False,
                                enable_model_summary=False, logger=False)
    loader = torch.utils.data.DataLoader
    trainer.fit(net, loader(data, batch_size=16, shuffle=True), loader(data, batch_size=64))
    metrics = {name: round(value.item(), 6) for name, value in trainer.callback_metrics.items()}
    ranks = trainer.strategy.all_gather(torch.tensor([trainer.global_rank])).flatten().tolist()
    checkpoint = torch.load(trainer.strategy.broadcast(trainer.checkpoint_callback.best_model_path), weights_only=False)
    weights = sum(value.double().sum().item() for value in checkpoint["state_dict"].values())
    trainer.strategy.barrier()
    print(f"rank {trainer.global_rank}: {metrics}, ranks {ranks}, weights {weights:.6f}\n", end="", flush=True)


def run(command, environment, folder):
    """The exit status and the output; a command that hangs is an error."""
    with subprocess.Popen(command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            output = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            # Workers have their own sessions: the launcher ends them after SIGTERM.
            for number in (signal.SIGTERM, signal.SIGKILL):
                os.killpg(process.pid, number)
                try:
                    output = process.communicate(timeout=LIMIT_OF_END_S)
                    break
                except subprocess.TimeoutExpired:
                    output = ("", "its output does not end\n")
            else:
                process.stdout.close()
                process.stderr.close()
            sys.exit(f"{command} has not ended within {LIMIT_S} seconds\n{''.join(output)}")
    return process.returncode, *output


def lines_of(command, environment, backend):
    # On busy cores, PyTorch's thread of gloo sometimes aborts a worker whose Python ends, under any launcher.
    for attempts_left in reversed(range(3 if backend == "gloo" else 1)):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = run([*command, __file__, "--train", backend], environment, folder)
        if status == 0 or attempts_left == 0 or "terminate called without an active exception" not in err:
            break
        print(f"{command[0]}: gloo aborted a worker at its end; again", flush=True)
    lines = sorted(line for line in out.splitlines() if line.startswith("rank "))
    if status != 0 or len(lines) != RANKS:
        sys.exit(f"{command}, {backend}: status {status}\n{out}{err}")
    return lines


def main():
    distrun, python, packages = (pathlib.Path(os.path.abspath(each)) for each in sys.argv[1:4])
    environment = {**os.environ, "PYTHONPATH": f"{packages}:{ROOT / 'packaging/python'}", "PYTHON_EXEC": str(python), "CUDA_VISIBLE_DEVICES": "",
                   "DISTRUN_SHM_CACHE": str(distrun.parent / "distrun-shm"), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    # Once, and not in each rank.
    subprocess.run([python, "-m", "distrun.shm"], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_OF_BUILD_S)
    torchrun = [python, "-m", "torch.distributed.run", "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0",
                f"--nproc-per-node={RANKS}"]
    expected = lines_of(torchrun, environment, "gloo")
    print(*expected, sep="\n")
    different = 0
    for backend in ("gloo", "shm"):
        lines = lines_of([distrun, "launch", f"--nproc-per-node={RANKS}"], environment, backend)
        is_same = lines == expected
        print(f"distrun launch, {backend}: {'the same' if is_same else lines}")
        different += not is_same
    return different


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2])
    else:
        sys.exit(main())
