#!/usr/bin/env python3
"""Records docs/demo.svg: runs real commands on a terminal and draws what they print, when they print it.

    cmake/record_demo.py BUILD docs/demo.svg

The SVG needs no script: each version of a line of the screen is a group that CSS shows for its time.  It is readable in
light and in dark mode; readers who prefer reduced motion see the end."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

COLUMNS, ROWS = 92, 23
# Of a character, a line, the margin and the top bar, in pixels.
CHAR, LINE, PAD, BAR = 8.4, 18.0, 14, 26
TYPING_S, BEFORE_S, AFTER_S, END_S, STEP_S = 0.03, 0.5, 1.4, 3.0, 0.05

# Typed commands, and how long their output is shown. train.py is in FILES.
COMMANDS = [
    ("distrun launch --nproc-per-node 4 ./train_digits digits.csv   # C++ workers", AFTER_S),
    ("distrun launch --nproc-per-node 4 train.py                    # Python; one will fail", AFTER_S + 2.5),
    ("distrun test gloo -k 'broadcast and not (cuda or gpu)'        # distributed tests", END_S),
]
FILES = {
    "train.py": """import os
import time

rank = int(os.environ["RANK"])
for epoch in range(1, 4):
    print(f"epoch {epoch} on shard {rank}")
    time.sleep(0.3)
    if rank == 2 and epoch == 2:
        raise FileNotFoundError("shard-2.bin")
time.sleep(10)
""",
}


class Screen:
    """A terminal as far as programs here use it: text, colours, carriage returns, erasing to the end of the line."""

    def __init__(self):
        self.lines = [[]]  # Cells: a character and its style.
        self.row = self.column = 0
        self.style = ""
        self.changed = set()

    def write(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.", text, re.S):
            if part[0] == "\x1b":
                self.control(part[2:-1], part[-1])
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.down()
            elif part >= " ":
                self.put(part)

    def put(self, character):
        if self.column == COLUMNS:
            self.column = 0
            self.down()
        line = self.lines[self.row]
        line += [(" ", "")] * (self.column + 1 - len(line))
        line[self.column] = (character, self.style)
        self.column += 1
        self.changed.add(self.row)

    def down(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])
        self.changed.add(self.row)

    def control(self, numbers, what):
        if what == "K":
            del self.lines[self.row][self.column:]
            self.changed.add(self.row)
        elif what == "m":
            for number in (numbers or "0").split(";"):
                kept = [] if number == "0" else [style for style in self.style.split() if style[0] != "c" or number == "1"]
                new = {"1": "b", "2": "d"}.get(number, f"c{number}" if re.fullmatch("3[1-6]", number) else "")
                self.style = " ".join(filter(None, [*kept, new]))


class Recording:
    """What the screen showed, and when: (seconds, {row: cells}, number of lines), in the time of the recording."""

    def __init__(self):
        self.screen, self.frames, self.now = Screen(), [], 0.0

    def write(self, text):
        self.screen.write(text)
        lines = {row: list(self.screen.lines[row]) for row in self.screen.changed}
        self.screen.changed.clear()
        last_row = self.screen.row
        if self.frames and self.now - self.frames[-1][0] < STEP_S / 2:
            lines = {**self.frames.pop()[1], **lines}
        self.frames.append((self.now, lines, last_row + 1))

    def type(self, command):
        self.screen.style = "c32 b"
        self.write("$ ")
        self.screen.style = ""
        self.now += BEFORE_S
        for start in range(0, len(command), 2):
            self.screen.style = "d" if "#" in command[:start + 1] else ""
            self.write(command[start:start + 2])
            self.now += 2 * TYPING_S
        self.screen.style = ""
        self.write("\r\n")

    def run(self, command, folder, environment):
        parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=child,
                                   stderr=child, start_new_session=True)
        os.close(child)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        start, before = self.now, time.monotonic()
        while time.monotonic() - before < 60:
            if not select.select([parent], [], [], 1)[0]:
                continue
            try:
                data = os.read(parent, 65536)
            except OSError:  # All programs have closed the terminal.
                break
            self.now = start + time.monotonic() - before
            self.write(decoder.decode(data))
        self.now = start + time.monotonic() - before
        process.wait(timeout=10)
        os.close(parent)


def spans(cells):
    """Runs of cells with one style: (column, text, style)."""
    found = []
    for column, (character, style) in enumerate(cells):
        if found and found[-1][2] == style and found[-1][0] + len(found[-1][1]) == column:
            found[-1] = (found[-1][0], found[-1][1] + character, style)
        else:
            found.append((column, character, style))
    return [span for span in found if span[1].strip()]


def drawn(cells, row):
    texts = []
    for column, text, style in spans(cells):
        lead = len(text) - len(text.lstrip())
        column, text = column + lead, text.strip()
        attributes = f' class="{style}"' if style else ""
        texts.append(f'<text x="{PAD + column * CHAR:.1f}" y="{BAR + PAD + (row + 0.75) * LINE:.1f}" '
                     f'textLength="{len(text) * CHAR:.1f}"{attributes}>{escape(text)}</text>')
    return "".join(texts)


def percent(seconds, total):
    return f"{100 * seconds / total:.3f}".rstrip("0").rstrip(".") + "%"


def svg_of(recording, total):
    versions = {}  # Of each row: (seconds, cells).
    scrolls = [(0.0, 0)]
    for now, lines, count in recording.frames:
        for row, cells in lines.items():
            versions.setdefault(row, []).append((now, cells))
        if max(0, count - ROWS) != scrolls[-1][1]:
            scrolls.append((now, max(0, count - ROWS)))

    rules, groups = [], []
    for row, shown in sorted(versions.items()):
        for number, (start, cells) in enumerate(shown):
            if not spans(cells):
                continue
            end = shown[number + 1][0] if number + 1 < len(shown) else None
            name = f"v{len(groups)}"
            hidden_after = f"{percent(end, total)},100%{{visibility:hidden}}" if end is not None else "100%{visibility:visible}"
            rules.append(f"@keyframes {name}{{0%{{visibility:hidden}}{percent(max(start, 0.001), total)}{{visibility:visible}}{hidden_after}}}"
                         f"#{name}{{animation-name:{name}" + (";visibility:hidden" if end is not None else "") + "}")
            groups.append(f'<g class="v" id="{name}">{drawn(cells, row)}</g>')
    steps = "".join(f"{percent(now, total)}{{transform:translateY({-by * LINE:g}px)}}" for now, by in scrolls)
    end = f"transform:translateY({-scrolls[-1][1] * LINE:g}px)"
    width, height = round(COLUMNS * CHAR + 2 * PAD), round(ROWS * LINE + 2 * PAD + BAR)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"
 aria-label="A terminal: distrun starts four workers, reports one that fails, and runs distributed tests">
<style>
svg{{--paper:#ffffff;--edge:#d0d7de;--bar:#f6f8fa;--ink:#1f2328;--dim:#59636e;--red:#cf222e;--green:#116329;--yellow:#7d4e00;
--blue:#0550ae;--magenta:#8250df;--cyan:#0b6e77}}
@media (prefers-color-scheme:dark){{svg{{--paper:#0d1117;--edge:#3d444d;--bar:#151b23;--ink:#e6edf3;--dim:#9198a1;--red:#ff7b72;
--green:#56d364;--yellow:#e3b341;--blue:#79c0ff;--magenta:#d2a8ff;--cyan:#56d4dd}}}}
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--ink);white-space:pre}}
.b{{font-weight:600}}.d{{fill:var(--dim)}}
.c31{{fill:var(--red)}}.c32{{fill:var(--green)}}.c33{{fill:var(--yellow)}}.c34{{fill:var(--blue)}}.c35{{fill:var(--magenta)}}
.c36{{fill:var(--cyan)}}
.v,#s{{animation-duration:{total:.2f}s;animation-timing-function:step-end;animation-iteration-count:infinite}}
@keyframes s{{{steps}100%{{{end}}}}}
#s{{animation-name:s;{end}}}
{"".join(rules)}
@media (prefers-reduced-motion:reduce){{.v,#s{{animation:none}}}}
</style>
<defs><clipPath id="screen"><rect y="{BAR + PAD}" width="{width}" height="{height - BAR - PAD - 2}"/></clipPath></defs>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="var(--paper)" stroke="var(--edge)"/>
<path d="M.5 {BAR}v-{BAR - 8.5}a8 8 0 0 1 8 -8h{width - 17}a8 8 0 0 1 8 8v{BAR - 8.5}z" fill="var(--bar)" stroke="var(--edge)"/>
<g clip-path="url(#screen)"><g id="s">
{chr(10).join(groups)}
</g></g>
</svg>
"""


def main(build, target):
    build = Path(build).resolve()
    recording = Recording()
    with tempfile.TemporaryDirectory(prefix="distrun-demo-") as name:
        folder = Path(name)
        for file, text in FILES.items():
            (folder / file).write_text(text)
        (folder / "train_digits").symlink_to(build / "examples/train_digits")
        (folder / "digits.csv").symlink_to(ROOT / "examples/data/digits.csv")
        environment = {**os.environ, "PATH": f"{build}:{os.environ['PATH']}", "TERM": "xterm-256color", "XDG_CACHE_HOME": name}
        for command, pause in COMMANDS:
            recording.type(command)
            recording.run(command, folder, environment)
            recording.now += pause
    Path(target).write_text(svg_of(recording, recording.now))
    print(f"{target}: {recording.now:.1f} s, {Path(target).stat().st_size // 1024} KiB")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
