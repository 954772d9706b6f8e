"""Python programs that ask for gloo get shm, in tests: PYTHONPATH has this folder, and that of distrun.shm."""

import functools
import os

if "RANK" in os.environ:  # Not in launchers.
    import distrun.shm  # pylint: disable=unused-import
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    def with_shm(call, place):
        @functools.wraps(call)
        def changed(*args, **kwargs):
            args = list(args)
            if len(args) > place and args[place] == "gloo":
                args[place] = "shm"
            elif kwargs.get("backend") == "gloo":
                kwargs["backend"] = "shm"
            return call(*args, **kwargs)
        return changed

    for name, place in (("init_process_group", 0), ("new_group", 2)):
        changed = with_shm(getattr(distributed_c10d, name), place)
        setattr(distributed_c10d, name, changed)
        setattr(dist, name, changed)
