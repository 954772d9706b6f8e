"""The collectives that a rank has run, from c10d's flight recorder, as testing/collectives.h has them in C++.

Any thread may ask.  The recorder knows when a collective began and whether it has completed.  It does not know when.
"""
import os
import pickle
import sys

from distrun_packets import no_collectives

BUFFER_SIZE = "TORCH_FR_BUFFER_SIZE"
BUFFER_SIZE_BEFORE = "TORCH_NCCL_TRACE_BUFFER_SIZE"  # Its name in older versions of PyTorch.
KEPT = 20_000  # Reading them takes half a second.
STRETCHES_MAX = 2000
NUMBERS_MAX = 100_000  # Frames have a maximum size.
OPERATIONS_KEPT = 200
TENSORS_SHOWN = 4
OPS = {"all_reduce": "allreduce", "sparse_all_reduce": "allreduce_sparse", "all_gather": "allgather",
       "all_to_all": "alltoall"}  # Names of c10d::Backend's methods.


def record():
    """Before the first collective, which reads the variable."""
    if BUFFER_SIZE not in os.environ and BUFFER_SIZE_BEFORE not in os.environ:
        os.environ[BUFFER_SIZE_BEFORE if _is_of_older_version(_c10d()) else BUFFER_SIZE] = str(KEPT)


def _c10d():
    """None if the test has not imported it."""
    return sys.modules.get("torch._C._distributed_c10d")


def _is_of_older_version(c10d):
    """Such a version records only NCCL."""
    return c10d is not None and not hasattr(c10d, "_dump_fr_trace")


class Entry:
    def __init__(self, entry):
        self.id, self.number, self.began = entry["record_id"], entry["collective_seq_id"], entry["time_created_ns"] // 1000
        self.has_ended = bool(entry["retired"])  # Gloo's "state" always stays "scheduled".
        self.group, *_ = names = [*entry["process_group"], ""]
        self.description = next((name for name in reversed(names) if name not in ("", "undefined")), "")
        title = entry["profiling_name"].partition(":")[2] or entry["profiling_name"]
        self.op = OPS.get(title, title)
        self.dtypes = [str(one) for one in entry["input_dtypes"]]
        self.dtype = ", ".join(one for i, one in enumerate(self.dtypes) if i == 0 or one != self.dtypes[i - 1])
        self.sizes = [list(one) for one in entry["input_sizes"]]
        self.kind = (self.op, self.dtype, tuple(map(tuple, self.sizes)))

    def collective(self):
        return {"op": self.op, "sizes": self.sizes, "dtype": self.dtype, "count": 0}

    def stretch(self):
        return {"group": self.group, "description": self.description, "collective": self.collective(), "has_ended": True}

    def operation(self):
        tensors = [f"{dtype} {sizes}" for dtype, sizes in zip(self.dtypes, self.sizes)]
        if len(tensors) > TENSORS_SHOWN:
            tensors[TENSORS_SHOWN:] = [f"{len(tensors) - TENSORS_SHOWN} more"]
        return [self.op, ", ".join(tensors), self.began, None, self.has_ended]

    def numbers(self):
        return sum(1 + len(sizes) for sizes in self.sizes)


def entries_now():
    """Oldest first."""
    c10d = _c10d()
    dump = getattr(c10d, "_dump_fr_trace", None) or getattr(c10d, "_dump_nccl_trace", None)
    if dump is None:
        return []
    return [Entry(one) for one in pickle.loads(dump(True, False, False)).get("entries", [])]


def record_of(entries):
    record, counted, last = no_collectives(), {}, {}
    numbers = 0
    for entry in entries:
        counted.setdefault(entry.kind, entry.collective())["count"] += 1
        stretch, kind = last.get(entry.group, (None, None))
        if stretch is None or kind != entry.kind or not stretch["has_ended"]:
            stretch = entry.stretch()
            last[entry.group] = stretch, entry.kind
            numbers += entry.numbers()
            if len(record["stretches"]) < STRETCHES_MAX and numbers <= NUMBERS_MAX:
                record["stretches"].append(stretch)
            else:
                record["is_whole"] = False
        stretch["collective"]["count"] += 1
        stretch["has_ended"] = entry.has_ended
    record["counted"] = list(counted.values())
    if entries and entries[0].id > 0:
        record["counted"].append({"op": "(forgotten)", "sizes": [], "dtype": "", "count": entries[0].id})
        record["is_whole"] = False
    record["operations"] = [one.operation() for one in entries[-OPERATIONS_KEPT:]]
    record["operations_left_out"] = max(len(entries) - OPERATIONS_KEPT, 0)
    return record


def place_of(entries):
    """The first collective that has not completed, together with equal ones that follow; otherwise the last one."""
    if not entries:
        return "no collective is recorded" if _is_of_older_version(_c10d()) else "no collective has run"
    first = next((i for i, one in enumerate(entries) if not one.has_ended), None)
    if first is None:
        last = entries[-1]
        return f"nothing is under way; the last collective, {_name_of(last, last.number)}, has completed: {_inputs_of(last)}"
    at = entries[first]
    number = at.number
    for one in entries[first + 1:]:
        if one.has_ended or one.group != at.group or one.kind != at.kind:
            break
        number = one.number
    return f"{_name_of(at, number)}, {'has' if number == at.number else 'have'} not completed: {_inputs_of(at)}"


def _name_of(first, number):
    """allreduce, numbers 3 to 7 of group default_pg"""
    numbers = f"number {number}" if number == first.number else f"numbers {first.number} to {number}"
    return f"{first.op}, {numbers}" + (f" of group {first.description}" if first.description else "")


def _inputs_of(entry):
    return f"{entry.dtype} {' '.join(map(str, entry.sizes))}" if entry.sizes else "no tensors"


def record_and_place():
    """A test must not fail because the recorder of another version of PyTorch has other fields."""
    try:
        entries = entries_now()
        return record_of(entries), place_of(entries)
    except Exception as error:
        record = no_collectives()
        record["is_whole"] = False
        return record, f"c10d's flight recorder could not be read: {type(error).__name__}: {error}"
