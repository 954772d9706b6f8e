"""Records the collectives of this process for `distrun launch --collectives` and `--digest`.

Workers of such a run need not import it: distrun_collectives.pth, beside this package, starts it in every Python that
distrun launches so.  It writes into memory of distrun; docs/operations.md has the format.  It sees what reaches a backend,
also from DDP, FSDP and compiled code.
"""

import atexit
import contextlib
import fcntl
import functools
import importlib.abc
import importlib.util
import mmap
import os
import struct
import sys
import threading
import time

_MAGIC = 0x3153504F4E555244
_HEADER = struct.Struct("<QIIQ")
_HEADER_BYTES = 4096
_SLOT = struct.Struct("<QqqQQIiiiII24s16s40s48s16I")
_BEGUN_AT = 16
_ENDED_AT, _FLAGS_AT, _DIGESTS_AT = 16, 56, 192
_TELLS_END, _HAS_INPUT_DIGEST, _HAS_OUTPUT_DIGESTS = 1, 2, 4
_FACTOR = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_EXIT_SECONDS = 1


class Page:
    """The memory of one worker.  Thread safety: any thread."""

    def __init__(self, address: str):
        """Raises OSError or ValueError if distrun cannot be reached, or another process records for this worker."""
        path, _, offset = address.rpartition(":")
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # Stays open: its lock says that the page is taken.
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(offset))
            header = os.pread(self._file, _HEADER.size, int(offset))
            magic, self._slots, slot_bytes, _ = _HEADER.unpack(header)
            if magic != _MAGIC or slot_bytes != _SLOT.size:
                raise ValueError(f"{path} is not a memory for collectives")
            self._memory = mmap.mmap(self._file, _HEADER_BYTES + self._slots * slot_bytes, offset=int(offset))
        except (OSError, ValueError, struct.error):
            os.close(self._file)
            raise
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._begun = struct.unpack_from("<Q", self._memory, _BEGUN_AT)[0]

    def is_own_process(self) -> bool:
        return os.getpid() == self._process

    def _at(self, number: int) -> int:
        return _HEADER_BYTES + (number - 1) % self._slots * _SLOT.size

    def begin(self, op, dtype, sizes, elements, element_bytes, group, rank, size, sequence, peer, began, flags, input_digest) -> int:
        with self._lock:
            number = self._begun + 1
            at = self._at(number)
            _SLOT.pack_into(self._memory, at, 0, began, 0, elements, input_digest, sequence, rank, size, peer, flags, element_bytes,
                            op.encode(), dtype.encode(), sizes.encode(), group.encode(), *([0] * 16))
            struct.pack_into("<Q", self._memory, at, number)
            struct.pack_into("<Q", self._memory, _BEGUN_AT, number)
            self._begun = number
            return number

    def end(self, number: int, ended: int, digests=None) -> None:
        with self._lock:
            at = self._at(number)
            if struct.unpack_from("<Q", self._memory, at)[0] != number:
                return
            if digests is not None:
                struct.pack_into("<16I", self._memory, at + _DIGESTS_AT, *digests)
                flags = struct.unpack_from("<I", self._memory, at + _FLAGS_AT)[0]
                struct.pack_into("<I", self._memory, at + _FLAGS_AT, flags | _HAS_OUTPUT_DIGESTS)
            struct.pack_into("<q", self._memory, at + _ENDED_AT, ended)

    def end_is_unknown(self, number: int) -> None:
        with self._lock:
            at = self._at(number)
            if struct.unpack_from("<Q", self._memory, at)[0] == number:
                flags = struct.unpack_from("<I", self._memory, at + _FLAGS_AT)[0]
                struct.pack_into("<I", self._memory, at + _FLAGS_AT, flags & ~_TELLS_END)


def block_digests(tensors) -> list:
    """The digests of 16 blocks, as common/operations/digest.h defines them."""
    import torch

    blocks = [0] * 16
    for tensor in tensors:
        if tensor.layout != torch.strided:
            continue
        data = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
        words_count = (data.numel() + 7) // 8
        size = (words_count + 15) // 16  # Words of a block.
        if data.numel() % 8 or data.storage_offset() % 8:
            data = torch.cat([data, data.new_zeros(-data.numel() % 8)])
        words = data.view(torch.int64)
        for block in range(16):
            part = words[block * size:(block + 1) * size]
            whole = part.numel() // 16 * 16
            sums = part[:whole].view(-1, 16).sum(0).tolist() if whole else [0] * 16
            for place, word in enumerate(part[whole:].tolist()):
                sums[place] += word
            folded = 0
            for each in sums:
                folded = ((folded ^ (each & _MASK)) * _FACTOR) & _MASK
            blocks[block] = (blocks[block] * 31 + (folded >> 32)) & 0xFFFFFFFF
    return blocks


def digest_value(blocks) -> int:
    folded = 0
    for block in blocks:
        folded = ((folded ^ block) * _FACTOR) & _MASK
    return folded


_COLLECTIVE, _FROM_ROOT, _TO_ROOT, _POINT_TO_POINT = range(4)
# Operators of c10d: name in torch.distributed; which arguments are outputs, inputs, group and peer (None: it has none).
_CALLS = {
    "allreduce_": ("all_reduce", 0, 0, 1, None, _COLLECTIVE),
    "allreduce_coalesced_": ("all_reduce_coalesced", 0, 0, 1, None, _COLLECTIVE),
    "broadcast_": ("broadcast", 0, 0, 1, 2, _FROM_ROOT),
    "reduce_": ("reduce", 0, 0, 1, 3, _TO_ROOT),
    "allgather_": ("all_gather", 0, 1, 2, None, _COLLECTIVE),
    "_allgather_base_": ("all_gather_into_tensor", 0, 1, 2, None, _COLLECTIVE),
    "allgather_coalesced_": ("all_gather_coalesced", 0, 1, 2, None, _COLLECTIVE),
    "allgather_into_tensor_coalesced_": ("all_gather_into_tensor_coalesced", 0, 1, 2, None, _COLLECTIVE),
    "gather_": ("gather", 0, 1, 2, 3, _TO_ROOT),
    "scatter_": ("scatter", 0, 1, 2, 3, _FROM_ROOT),
    "reduce_scatter_": ("reduce_scatter", 0, 1, 2, None, _COLLECTIVE),
    "_reduce_scatter_base_": ("reduce_scatter_tensor", 0, 1, 2, None, _COLLECTIVE),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter_tensor_coalesced", 0, 1, 2, None, _COLLECTIVE),
    "alltoall_": ("all_to_all", 0, 1, 2, None, _COLLECTIVE),
    "alltoall_base_": ("all_to_all_single", 0, 1, 2, None, _COLLECTIVE),
    "barrier": ("barrier", None, None, 1, None, _COLLECTIVE),
    "monitored_barrier_": ("monitored_barrier", None, None, 1, None, _COLLECTIVE),
    "send": ("send", None, 0, 1, 2, _POINT_TO_POINT),
    "recv_": ("recv", 0, None, 1, 2, _POINT_TO_POINT),
    "recv_any_source_": ("recv", 0, None, 1, None, _POINT_TO_POINT),
}


@functools.cache
def _dtype_name(dtype) -> str:
    """The name in C++: "Float" for torch.float32."""
    import torch

    try:
        return torch.empty(0, dtype=dtype, device="cpu").type().rpartition(".")[2].removesuffix("Tensor")
    except RuntimeError:
        return str(dtype).removeprefix("torch.")


def _tensors_in(value) -> list:
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors_in(each)]
    return [] if value is None else [value]


def _state_of(thread: int) -> str:
    """ "S 12 3": asleep; how often it has slept and was interrupted.  "S" if it has ended."""
    try:
        with open(f"/proc/self/task/{thread}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
    except OSError:
        return "S"
    values = (lines[name].split()[0] for name in ("State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"))
    return " ".join(values)


class Recorder:
    """Stands in PyTorch's dispatcher before the backends."""

    def __init__(self, page: Page, digests: str):
        """`digests`: "outputs", "all" or empty."""
        import torch
        from torch._C._distributed_c10d import ProcessGroup, Work, _create_work_from_future

        self._page, self._digests = page, digests
        self._group_of, self._work_of, self._work_from = ProcessGroup.unbox, Work.unbox, _create_work_from_future
        # Inference mode skips the keys of autograd and ADInplaceOrView, but not this one.
        self._after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        self._collectives, self._lock = {}, threading.Lock()
        self._pending, self._threads = 0, set()  # Callbacks of futures, and the threads that have called one.
        self.worlds = 0  # The default groups so far; the groups of two worlds can have the same names.
        self._library = torch.library.Library("c10d", "IMPL")
        for name, call in _CALLS.items():
            operator = getattr(torch.ops.c10d, name).default
            self._library.impl(name, functools.partial(self._observe, operator, *call), "BackendSelect", with_keyset=True)

    def _observe(self, operator, op, outputs_at, inputs_at, group_at, peer_at, kind, keyset, *args, **kwargs):
        keyset = keyset & self._after
        if not self._page.is_own_process():
            return operator.redispatch(keyset, *args, **kwargs)
        inputs = [] if inputs_at is None else _tensors_in(args[inputs_at])
        outputs = [] if outputs_at is None else _tensors_in(args[outputs_at])
        group = self._group_of(args[group_at])
        peer = -1 if peer_at is None else args[peer_at]
        shown, counted = inputs or outputs, outputs or inputs
        dtype = _dtype_name(shown[0].dtype) if shown else ""
        sizes = str(list(shown[0].shape)) + (", …" if len(shown) > 1 else "") if shown else ""
        elements = sum(tensor.numel() for tensor in counted)
        element_bytes = outputs[0].element_size() if len(outputs) == 1 else 0
        if kind == _TO_ROOT and peer != group.rank():
            outputs = []
        if kind == _FROM_ROOT and peer != group.rank():
            inputs = []
        flags, input_digest = 0, 0
        if all(tensor.device.type == "cpu" for tensor in inputs + outputs):
            flags = _TELLS_END
        if self._digests == "all" and inputs:
            flags, input_digest = flags | _HAS_INPUT_DIGEST, digest_value(block_digests(inputs))
        name = group.group_name + (f"@{self.worlds}" if self.worlds > 1 else "")
        with self._lock:  # The counts of the ranks of a group agree.
            sequence = 0
            if kind != _POINT_TO_POINT:
                sequence = self._collectives[name] = self._collectives.get(name, 0) + 1
            number = self._page.begin(op, dtype, sizes, elements, element_bytes, name, group.rank(), group.size(),
                                      sequence, peer, time.time_ns(), flags, input_digest)
        try:
            result = operator.redispatch(keyset, *args, **kwargs)
        except BaseException:
            self._page.end(number, time.time_ns())
            raise
        if result is None:
            self._page.end(number, time.time_ns())
            return result
        boxed = result[-1] if isinstance(result, (list, tuple)) else result
        is_for_future = self._digests and op == "all_reduce" and _is_called_by_autograd()
        work = self._watched(self._work_of(boxed), number, flags, outputs, is_for_future)
        if work is None:
            return result
        return (*result[:-1], work.boxed()) if isinstance(result, (list, tuple)) else work.boxed()

    def _watched(self, work, number, flags, outputs, is_for_future):
        """Returns the work to use in place of `work`, or None to keep it.

        Gloo's works complete their future, which calls this callback, before wait() returns.  So whoever calls wait() waits for the
        digest too, and cannot change the tensors before.  The future itself has no such order.
        """
        try:
            future = work.get_future() if flags & _TELLS_END else None
        except RuntimeError:  # Sends, receives and reduce_scatter of Gloo have none.
            future = None
        if future is None:
            self._page.end_is_unknown(number)
            return None
        with self._lock:
            self._pending += 1
        if not (self._digests and outputs):
            future.add_done_callback(lambda _: self._called(lambda: self._page.end(number, time.time_ns())))
            return None

        def digested(done):
            try:
                value = done.value()
            except Exception:  # The collective failed.
                self._page.end(number, time.time_ns())
                raise
            self._page.end(number, time.time_ns(), block_digests(outputs))
            return value

        if not is_for_future:
            def quietly_digested(done):
                with contextlib.suppress(Exception):  # wait() raises it.
                    digested(done)

            future.add_done_callback(lambda done: self._called(lambda: quietly_digested(done)))
            return None
        # The wait() of this work ignores errors, but its future has them.
        return self._work_from(future.then(lambda done: self._called(lambda: digested(done))))

    def _called(self, callback):
        try:
            return callback()
        finally:
            with self._lock:
                self._threads.add(threading.get_native_id())
                self._pending -= 1

    def wait_for_callbacks(self) -> None:
        """A thread that calls or frees its callback while Python ends would abort the process.

        Each sleep lets such a thread go on.  If all have slept meanwhile, none has waited for Python.
        """
        if not self._page.is_own_process():
            return
        deadline = time.monotonic() + _EXIT_SECONDS
        before = None
        while time.monotonic() < deadline:
            if self._pending > 0 and _has_failed():
                _end_after_exception()
            now = [_state_of(thread) for thread in self._threads]
            if self._pending == 0 and now == before and all(state.startswith("S") for state in now):
                return
            before = now
            time.sleep(0.002)


def _is_called_by_autograd() -> bool:
    """Whether DistributedDataParallel starts the collective during backward(): it waits for futures, and does not call wait()."""
    try:
        caller = sys._getframe(2)
    except ValueError:  # A thread of autograd.
        return True
    return caller.f_code.co_name == "_engine_run_backward"


def _has_failed() -> bool:
    """Whether Python ends because of an exception, which it has printed."""
    return getattr(sys, "last_type", None) is not None and not sys.flags.interactive


def _end_after_exception() -> None:
    """Ends as Python does, but at once: nothing knows when other ranks let the pending collectives end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass
    os._exit(1)


_recorder = None


def _at_exit() -> None:
    if _recorder is not None:
        _recorder.wait_for_callbacks()


def start() -> bool:
    """Begins to record, if this process is a worker of distrun launch.  Returns whether it records."""
    global _recorder
    if _recorder is not None:
        return True
    address = os.environ.get("DISTRUN_OPERATIONS")
    if not address:
        return False
    try:
        page = Page(address)
    except (OSError, ValueError, struct.error):
        return False
    _recorder = Recorder(page, os.environ.get("DISTRUN_DIGEST", ""))
    return True


class _Loader(importlib.abc.Loader):
    """Loads the module as `loader` does, and makes its init_process_group() call start() and count the worlds."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        original = getattr(module, "init_process_group", None)
        if original is None:  # PyTorch without torch.distributed.
            return

        @functools.wraps(original)
        def init_process_group(*args, **kwargs):
            is_recorded = start() and not module.is_initialized()
            if not is_recorded:
                return original(*args, **kwargs)
            _recorder.worlds += 1
            try:
                return original(*args, **kwargs)
            except BaseException:
                _recorder.worlds -= 1
                raise

        module.init_process_group = init_process_group


class _Finder(importlib.abc.MetaPathFinder):
    NAME = "torch.distributed.distributed_c10d"

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def start_when_needed() -> None:
    """Starts when this process creates its first process group.  Costs nothing if it never does."""
    atexit.register(_at_exit)  # Registered early, it is called after the program's own functions.
    if _Finder.NAME in sys.modules:
        start()
    else:
        sys.meta_path.insert(0, _Finder())
