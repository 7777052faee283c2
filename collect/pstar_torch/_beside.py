"""What a program holds beside the model and its optimizers: other modules, averages of weights, data."""
import collections
import gc
import weakref

import torch


def other_modules(model):
    """Returns the modules that neither the model nor another module has."""
    gc.collect()
    own = {id(module) for module in model.modules()}
    others = [found for found in gc.get_objects() if issubclass(type(found), torch.nn.Module)
              and id(found) not in own]
    inner = {id(child) for module in others for child in module.children()}
    return [module for module in others if id(module) not in inner]


def _copies(tensors, shapes):
    """Returns those of the tensors that make up whole copies of tensors of these shapes. A few that have a
    shape of the model's by chance are no copy."""
    wanted, by_shape = collections.Counter(shapes), {}
    for tensor in tensors:
        by_shape.setdefault(tensor.shape, []).append(tensor)
    times = min((len(by_shape.get(shape, ())) // count for shape, count in wanted.items()), default=0)
    if len(shapes) < 2:
        return []
    return [tensor for shape, count in wanted.items() for tensor in by_shape.get(shape, ())[:times * count]]


def _key(tensor, device):
    """Returns the address of the storage of a tensor on the device; None if it has none."""
    try:
        if tensor.device == device and tensor.layout == torch.strided and tensor.numel() > 0:
            return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # a parameter without a shape, or a tensor of a transform
        pass
    return None


class Loose:
    """Tensors on the model's device that no module and no optimizer has, from the beginning of the iteration."""

    def __init__(self, observer):
        self.observer, self.rest = observer, 0
        known, self.found = set(observer.live), []
        for tensor in [found for found in gc.get_objects() if issubclass(type(found), torch.Tensor)]:
            key = _key(tensor, observer.device)
            if key is not None and key not in known:
                known.add(key)
                self.found.append(weakref.ref(tensor))

    def unused(self):
        """Returns those that are still there and that no operator of the iteration has used."""
        alive = [tensor for tensor in (reference() for reference in self.found) if tensor is not None]
        used = {None, *self.observer.live}
        return [tensor for tensor in alive if _key(tensor, self.observer.device) not in used]

    def fix(self):
        """Counts what is on the device for certain, or looks like averages of the weights. Of other tensors on
        the processor, where the program's data is, too, it is not known whether a GPU would have them."""
        observer, unused = self.observer, self.unused()
        trained = [same[0].shape for _, same in observer.tensors if same[0].requires_grad]
        if observer.device.type not in ("cpu", "meta"):
            counted, name = unused, "tensors beside the model"
        else:
            counted, name = _copies(unused, trained), "copies of parameters beside the model"
        storages = [observer.claim(tensor, "fixed") for tensor in counted]
        if storages:
            observer.fixed.append((f"{name} ({len(storages)} tensors)", *storages))
        chosen = {id(tensor) for tensor in counted}
        self.rest = sum(tensor.untyped_storage().nbytes() for tensor in unused if id(tensor) not in chosen)
