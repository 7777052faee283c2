"""Sees the ATen operators of a loop that follows a plan."""
import functools

from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from ._observer import divided, pop_mode, reads_values, tensors_in, written_by


@functools.lru_cache(maxsize=None)
def _is_view(function):
    """Whether an ATen operator returns a view of its argument and computes nothing."""
    return any(argument.alias_info is not None and not argument.alias_info.is_write
               for argument in function._schema.arguments)


def _storage_of(tensor):
    """Returns the address of the tensor's storage; None if it has none (sparse tensors)."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


class Watch(TorchDispatchMode):
    """Outside of modules, where no event says which parameter's turn it is, the first operator that
    touches a parameter begins its moment. Every operator is checked: it may use only what the
    current operator of the plan has, where the plan has it. Between two iterations an operator may use
    what is there."""

    def __init__(self, follower):
        super().__init__()
        self.follower, self.active = follower, False

    def start(self):
        if not self.active:
            self.__enter__()
            self.active = True

    def stop(self):
        if self.active:
            if _get_current_dispatch_mode() is self:
                self.__exit__(None, None, None)
            else:
                pop_mode(self)
            self.active = False

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if self.follower.busy or self.follower.mode is None:
            return function(*arguments, **keywords or {})
        if not self.follower.inside:
            instead = self.follower.masters.instead(function, arguments)
            if instead is not None:
                return instead[0]
            self.check_between(function, arguments, keywords or {})
            return function(*arguments, **keywords or {})
        results = []
        for some, named in divided(function, arguments, keywords or {}):
            for tensor in tensors_in([some, named]):
                if reads_values(function):
                    self.touch(tensor, function)
                else:
                    self.check_order(tensor, function)
            results.append(function(*some, **named))
        if len(results) == 1:
            return results[0]
        return None if results[0] is None else [one for result in results for one in result]

    def check_between(self, function, arguments, keywords):
        """Called with each operator between two iterations. What is elsewhere would read as NaN, and what is
        written would be lost where the plan has another copy."""
        if _is_view(function):
            return
        chunks, written = self.follower.chunks, written_by(function)
        for place, value in [*enumerate(arguments), *keywords.items()]:
            for tensor in tensors_in(value):
                storage = _storage_of(tensor)
                bound = self.follower.nowhere.get(storage)
                if bound is not None and reads_values(function):
                    raise RuntimeError(f"{function} uses {bound.kind} of {bound.name} between two steps, where "
                                       "it is elsewhere: read and write within `with follower.gathered():`")
                if place in written and self.follower.mode != "gathered" and \
                        storage in (chunks.arena.storage, chunks.pool.storage):
                    raise RuntimeError(f"{function} writes model data between two steps, which may be lost: "
                                       "write within `with follower.gathered():`")

    def touch(self, tensor, function):
        """Called with each tensor that an operator uses. Views use no bytes."""
        follower = self.follower
        bound = self.owner(tensor)
        if bound is not None and bound not in follower.current:
            follower.begin_piece(bound)
        if bound is None or _is_view(function):
            return
        if bound not in follower.current or bound.where is None:
            raise RuntimeError(
                f"{function} uses {bound.kind} of {follower.plan.tensors[bound.index]} where the "
                f"plan does not have it for {follower.moment_name()}: the program keeps a view of "
                "it between operators")

    def check_order(self, tensor, function):
        """Called with each tensor of whose kind an operator makes another one. Those that are
        elsewhere look as if their elements lay in the order of their dimensions."""
        bound = self.owner(tensor)
        if bound is not None and bound.where is None and not bound.shape.is_contiguous():
            raise RuntimeError(f"{function} makes a tensor like {bound.kind} of {bound.name}, which "
                               "is elsewhere and does not lie in the order of its dimensions")

    def owner(self, tensor):
        """Returns what has the tensor's memory, what the current operator uses first; None if that
        memory is not the plan's."""
        follower, storage = self.follower, _storage_of(tensor)
        if storage is None:
            return None
        if storage in follower.nowhere:
            return follower.nowhere[storage]
        lent = follower.saved.find_lent(tensor)
        if lent is not None:
            return lent[0]
        for memory in (follower.chunks.arena, follower.chunks.pool):
            if storage == memory.storage and tensor.numel() > 0:
                address = memory.address_of(tensor)
                found = next((bound for bound in (*follower.current, *follower.bound.values())
                              if bound.covers(memory, address)), None)
                if found is None and memory is follower.chunks.arena and \
                        follower.saved.activations.covers(address, follower):
                    return None
                if found is None:
                    raise RuntimeError("an operator uses memory that the plan has given to others: "
                                       "the program keeps a view of a parameter between operators")
                return found
        return None
