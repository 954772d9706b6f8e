#!/usr/bin/env python3
"""completions_test.py DISTRUN bash|zsh: types command lines into an interactive shell, with tabs, and looks at the words that it runs."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = [
    ("lau\t", "launch"),
    ("launch --nproc-p\t4", "launch --nproc-per-node 4"),
    ("launch --nproc_per_node 4 --no-py\tsh", "launch --nproc_per_node 4 --no-python sh"),
    ("launch --events res\t", "launch --events results.json"),
    ("launch --events=res\t", "launch --events=results.json"),
    ("launch -t res\t", "launch -t results.json"),
    ("launch -m --max-re\t3", "launch -m --max-restarts 3"),
    ("launch train_l\t", "launch train_lines.py"),
    ("launch folder/tr\t", "launch folder/train.py"),
    ("launch train_lines.py --nproc-p\t", "launch train_lines.py --nproc-p"),
    ("launch train_lines.py res\t", "launch train_lines.py results.json"),
    ("store comp\t", "store compare-set"),
    ("store get --connect-t\t5", "store get --connect-timeout 5"),
    ("store get --ra\tkey", "store get --raw key"),
    ("test --show-o\t", "test --show-output"),
    ("nothing --nproc-p\t", "nothing --nproc-p"),
]
# Under the name torchrun, distrun has no commands.
TORCHRUN_CASES = [
    ("--nproc-p\t4", "--nproc-per-node 4"),
    ("--events res\t", "--events results.json"),
    ("train_l\t", "train_lines.py"),
    ("train_lines.py --nproc-p\t", "train_lines.py --nproc-p"),
    ("train_lines.py res\t", "train_lines.py results.json"),
]
SETUP = {
    "bash": "PS1='ready> '; bind 'set enable-bracketed-paste off'; source {folder}/distrun.bash; source {folder}/torchrun.bash\n",
    "zsh": "PS1='ready> '; unsetopt zle_bracketed_paste; fpath=({folder} $fpath); autoload -Uz compinit; compinit -D -u\n",
}
COMMAND = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


class Shell:
    def __init__(self, command, environment, folder):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        self.text = ""

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def wait_for(self, pattern):
        """Returns the match, and forgets what came before its end."""
        deadline = time.monotonic() + 30
        while not (found := re.search(pattern, self.text)):
            if not select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"no {pattern!r} in {self.text!r}")
            self.text += os.read(self.terminal, 4096).decode(errors="replace")
        self.text = self.text[found.end() :]
        return found


def for_torchrun(script):
    return re.sub("^(complete -F _distrun|#compdef) distrun$", r"\1 torchrun", script, count=1, flags=re.MULTILINE)


def main(distrun, shell):
    if not shutil.which(shell):
        print(f"{shell} is not installed")
        sys.exit(77)  # CTest: skipped.
    sources = Path(__file__).parent / "completions"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(sources / "distrun.bash", folder)
        shutil.copy(sources / "distrun.zsh", folder / "_distrun")
        for file in ("results.json", "train_lines.py", "folder/train.py"):
            (folder / "work" / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / "work" / file).touch()
        for name_of_program in ("distrun", "torchrun"):
            real = folder / "links" / name_of_program
            real.parent.mkdir(exist_ok=True)
            real.symlink_to(distrun)
            # Prints its arguments instead of running the real program.
            program = folder / name_of_program
            program.write_text(f'#!/bin/sh\ncase "$*" in *--help) exec "{real}" "$@" ;; esac\nprintf "words:%s:\\n" "$*"\n')
            program.chmod(0o755)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "TERM": "dumb", "HOME": name, "LC_ALL": "C.UTF-8"}
        source = (sources / f"distrun.{shell}").read_text()
        for name_of_program, expected in ("distrun", source), ("torchrun", for_torchrun(source)):
            command = [folder / "links" / name_of_program, *(["launch"] if name_of_program == "distrun" else []), "--print-completion", shell]
            if subprocess.run(command, capture_output=True, text=True, check=False).stdout != expected:
                sys.exit(f"{' '.join(map(str, command))} does not print the script")
        (folder / "torchrun.bash").write_text(for_torchrun(source))
        (folder / "_torchrun").write_text(for_torchrun(source))
        at = Shell(COMMAND[shell], environment, folder / "work")
        at.type(SETUP[shell].format(folder=folder))
        at.wait_for("\nready> |\rready> ")
        failed = 0
        cases = [("distrun", *case) for case in CASES] + [("torchrun", *case) for case in TORCHRUN_CASES]
        for name_of_program, typed, expected in cases:
            at.type(f"{name_of_program} {typed}\n")
            words = at.wait_for("words:(.*?) *:\r")[1]
            at.wait_for("ready> ")
            failed += words != expected
            print("passed" if words == expected else "FAILED", repr(typed), "gives", repr(words))
        at.type("exit\n")
        os.waitpid(at.pid, 0)
        sys.exit(failed > 0)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2])
