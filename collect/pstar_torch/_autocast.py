"""Autocast on the meta device, which PyTorch's own knows nothing of: what it casts to less precision, and what to
more, as on CUDA devices (PyTorch, "Automatic Mixed Precision package", op reference)."""
import torch

_LOWER = {"__matmul__", "__rmatmul__", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "bmm",
          "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
          "einsum", "linear", "matmul", "mm", "multi_dot", "mv", "prelu", "scaled_dot_product_attention"}
_SINGLE = {"__pow__", "__rpow__", "acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh",
           "cosine_embedding_loss", "cosine_similarity", "cross_entropy_loss", "dist", "erfinv", "exp", "expm1",
           "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10",
           "log1p", "log2", "logsumexp", "margin_ranking_loss", "mse_loss", "multi_margin_loss", "nll_loss",
           "nll_loss_nd", "norm", "poisson_nll_loss", "pow", "reciprocal", "renorm", "rms_norm", "rsqrt", "sinh",
           "smooth_l1_loss", "soft_margin_loss", "softplus", "tan", "triplet_margin_loss"}
_SUMS = {"cumprod", "cumsum", "log_softmax", "prod", "softmax", "sum"}  # may convert while they compute


class _OnHost(torch.autocast):
    """The processor's autocast, whatever device the program has it for: layers that run again find it as it was."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        super().__init__("cpu", dtype or torch.get_autocast_dtype(device_type), enabled, cache_enabled)


def _of_cuda(enabled=True, dtype=torch.float16, cache_enabled=True):
    return _OnHost("cuda", dtype, enabled, cache_enabled)


class Autocast:
    """Casts arguments of functions while the program has autocast. Casts of parameters are kept until it ends."""

    def __init__(self):
        self.casts = {}
        clear = torch.clear_autocast_cache

        def clear_all():
            self.casts.clear()
            clear()
        torch.clear_autocast_cache = clear_all
        torch.autocast = torch.amp.autocast = torch.amp.autocast_mode.autocast = _OnHost
        torch.cuda.amp.autocast = torch.cuda.amp.autocast_mode.autocast = _of_cuda

    def cast(self, value, dtype):
        if isinstance(value, (list, tuple)):
            return type(value)(self.cast(part, dtype) for part in value)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or \
                value.dtype in (dtype, torch.float64):
            return value
        if not value.is_leaf or not value.requires_grad or not torch.is_autocast_cache_enabled():
            return value.to(dtype)
        key = id(value), dtype, torch.is_grad_enabled()
        if key not in self.casts:
            self.casts[key] = value, value.to(dtype)
        return self.casts[key][1]

    def arguments(self, name, arguments, keywords):
        """Returns the function's arguments as autocast would cast them."""
        if not torch.is_autocast_enabled("cpu"):
            return arguments, keywords
        dtype = torch.get_autocast_dtype("cpu")
        if name in _SUMS and isinstance(arguments[0], torch.Tensor) and arguments[0].dtype == dtype:
            return arguments, {"dtype": torch.float32, **keywords}
        to = dtype if name in _LOWER else torch.float32 if name in _SINGLE else None
        if to is None:
            return arguments, keywords
        return (tuple(self.cast(value, to) for value in arguments),
                {key: self.cast(value, to) for key, value in keywords.items()})
