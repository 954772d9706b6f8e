#!/usr/bin/env python3
"""Trains with Lightning under torchrun and under `distrun launch`, and there also on the backend shm: all print the same.

    cli/lightning_test.py build/distrun .deps/venv/bin/python3 .deps/lightning

The third argument is the folder of `cmake/setup.sh lightning`.  Takes about a minute.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RANKS = 2


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


def lines_of(command, environment):
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(command, env=environment, cwd=folder, timeout=300, check=False, text=True, capture_output=True)
    lines = sorted(line for line in ended.stdout.splitlines() if line.startswith("rank "))
    if ended.returncode != 0 or len(lines) != RANKS:
        sys.exit(f"{command}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return lines


def main():
    distrun, python, packages = (pathlib.Path(os.path.abspath(each)) for each in sys.argv[1:4])
    environment = {**os.environ, "PYTHONPATH": f"{packages}:{ROOT / 'packaging/python'}", "PYTHON_EXEC": str(python), "CUDA_VISIBLE_DEVICES": "",
                   "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    torchrun = [python, "-m", "torch.distributed.run", "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    expected = lines_of([*torchrun, f"--nproc-per-node={RANKS}", __file__, "--train", "gloo"], environment)
    print(*expected, sep="\n")
    different = 0
    for backend in ("gloo", "shm"):
        lines = lines_of([distrun, "launch", f"--nproc-per-node={RANKS}", __file__, "--train", backend], environment)
        is_same = lines == expected
        print(f"distrun launch, {backend}: {'the same' if is_same else lines}")
        different += not is_same
    return different


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2])
    else:
        sys.exit(main())
