"""Lets functions keep for backward, on the meta device, what kernels of GPUs keep. By themselves they compute there as
on a processor. Recomputed layers run without modes, so the functions themselves are replaced."""
import functools

import torch
from torch import nn


def _may_be_fused(query, value):
    """Whether a GPU has a kernel that keeps no scores, and the program allows it."""
    allowed = torch.backends.cuda.flash_sdp_enabled() or torch.backends.cuda.mem_efficient_sdp_enabled()
    return allowed and query.device.type == "meta" and query.dim() == 4 and query.shape[-1] == value.shape[-1]


def _fuse_attention():
    """Attention keeps the sums of the scores' rows, and not the scores."""
    original = nn.functional.scaled_dot_product_attention
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    biased = torch.ops.aten._scaled_dot_product_efficient_attention

    @functools.wraps(original)
    def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
        if not _may_be_fused(query, value):
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        if torch.is_autocast_enabled("cpu"):
            query, key, value = (part.to(torch.get_autocast_dtype("cpu")) for part in (query, key, value))
        if attn_mask is None:
            return fused(query, key, value, dropout_p, is_causal, scale=scale)[0]
        attn_mask = attn_mask.to(query.dtype)
        if not attn_mask.requires_grad:
            return fused(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
        bias = attn_mask.expand(*query.shape[:3], key.shape[-2])
        return biased(query, key, value, bias, True, dropout_p, is_causal, scale=scale)[0]
    nn.functional.scaled_dot_product_attention = attend


def _fuse_dropout():
    """Dropout keeps a mask of one byte an element, and not numbers to multiply by."""
    function, operator = nn.functional.dropout, torch.dropout

    def may_be_fused(tensor, p, training):
        return training and 0 < p < 1 and tensor.is_meta and tensor.numel() > 0

    @functools.wraps(function)
    def dropout(input, p=0.5, training=True, inplace=False):
        if may_be_fused(input, p, training) and not inplace:
            return torch.native_dropout(input, p, True)[0]
        return function(input, p, training, inplace)

    def of_torch(input, p, train):
        return torch.native_dropout(input, p, True)[0] if may_be_fused(input, p, train) else operator(input, p, train)
    nn.functional.dropout, torch.dropout = dropout, of_torch


class _RmsNorm(torch.autograd.Function):
    """Keeps the input and a number a row. A layer norm stands for what is computed."""

    @staticmethod
    def forward(context, x, weight, shape):
        result, _, of_rows = torch.native_layer_norm(x, shape, weight, None, 1e-5)
        context.save_for_backward(x, weight, of_rows)
        context.shape = shape
        return result

    @staticmethod
    def backward(context, gradient):
        x, weight, of_rows = context.saved_tensors
        needed = [context.needs_input_grad[0], weight is not None and context.needs_input_grad[1], False]
        of_x, of_weight, _ = torch.ops.aten.native_layer_norm_backward(gradient, x, context.shape, of_rows, of_rows,
                                                                       weight, None, needed)
        return of_x, of_weight, None


def _fuse_rms_norm():
    """GPUs have a kernel, if input and weight have one type."""
    original = torch.rms_norm

    def norm(input, normalized_shape, weight=None, eps=None):
        if not input.is_meta or input.is_complex():
            return original(input, normalized_shape, weight, eps)
        if torch.is_autocast_enabled("cpu"):
            input, weight = (part if part is None else part.float() for part in (input, weight))
        if weight is not None and weight.dtype != input.dtype:
            return original(input, normalized_shape, weight, eps)
        return _RmsNorm.apply(input, weight, list(normalized_shape))
    torch.rms_norm = nn.functional.rms_norm = norm


class _Ctc(torch.autograd.Function):
    """Keeps the sums of all beginnings of a text at each place of a sequence, as PyTorch's kernel does. Backward makes
    those of all ends beside the gradient."""

    @staticmethod
    def forward(context, x, states):
        sums = x.new_empty(*x.shape[1:-1], x.shape[0], states)
        context.save_for_backward(x, sums)
        return x.sum((0, -1))

    @staticmethod
    def backward(context, gradient):
        x, sums = context.saved_tensors
        ends = sums.neg()
        result = x.neg()
        del ends
        return result, None


def _run_ctc():
    """The loss has no kernel on the meta device."""
    original = nn.functional.ctc_loss

    @functools.wraps(original)
    def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
        if not log_probs.is_meta:
            return original(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
        longest = int(max(target_lengths)) if log_probs.dim() == 3 else targets.shape[-1]
        losses = _Ctc.apply(log_probs.float(), 2 * longest + 1)
        return {"none": losses, "mean": losses.mean(), "sum": losses.sum()}[reduction]
    nn.functional.ctc_loss = ctc_loss


def use_gpu_kernels():
    _run_ctc()
    _fuse_attention()
    _fuse_dropout()
    if hasattr(torch, "_fused_rms_norm"):  # PyTorch has the kernel
        _fuse_rms_norm()
