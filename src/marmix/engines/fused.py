"""One value-and-gradient pass on a CUDA device in two Triton kernels, which compute `block_sums`.

Array operations write and read dozens of numbers per row between x and the sums. Here x is read twice, and ``G`` is written and
read once:

    per row    x -> scores -> posteriors -> uncertainty -> hazard -> G and six sums   `_rows`, vector arithmetic
    per class  ``sum_j G_jk [1; x_j] [1; x_j]'``                                      `_moments`, tensor cores

A score is a polynomial, ``s_k = w_0 + sum_i x_i (w_i + sum_{j >= i} w_ij x_j)``, with all products, only squares, or none. Its
moments are a triangle of the second kernel's matrix, its first row and diagonal, or its first row. With more than
`_MOST_FEATURES` features, scores and moments are matrix products of the score model, and only the steps between them are fused.

Everything is in double precision and as accurate at the extremes as `measures` and `links`. The order of summation is fixed, so
that a device always returns the same bits. Nothing waits for the host.
"""
# In Triton tuples grow by addition, and most arguments have no type.
# ruff: noqa: RUF005
# mypy: disable-error-code="no-untyped-def, assignment"

from contextlib import nullcontext
from itertools import pairwise
from math import factorial, log
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from marmix.core.covariance import Moments, expanded
from marmix.core.gaussian import GaussianScores
from marmix.core.likelihood import Block, Sums
from marmix.core.linear import LinearScores
from marmix.core.mechanism import Mechanism

# Launch sizes: rows per tile, warps per tile, tiles per program. ROWS by the largest number of classes: a thread has
# tile / (32 warps) rows; with more it reads coefficients less often but needs more registers. MOMENTS by the padded length of
# [1; x].
ROWS = {2: (128, 4, 16), 5: (256, 4, 8), 1000: (128, 4, 16)}
MOMENTS = {16: (64, 1, 64), 32: (32, 1, 128), 64: (32, 4, 128)}
_MOST_FEATURES = max(MOMENTS) - 1

# Entries of G in a block of rows, and of whitened rows: 1/4 and 2 GiB, far more than occupies a device.
_BLOCK_G, _BLOCK_WIDE = 2**25, 2**28

_LARGEST = tl.constexpr(torch.finfo(torch.float64).max)
_EXPM1 = tl.constexpr(tuple(1.0 / factorial(i) for i in range(14)))
_MOST_CLASSES = 32  # as a row's scores are in registers
_FAR_UP, _SMALL_SHAPE, _NO_SHAPE = 690.0, 0.01, 1e-290  # as in `links`; below the last, 1 / shape overflows


# fmt: off
# Functions of rows: 1-d tensors with one entry per row; tuples have one tensor per class.

@triton.jit
def _log1p(x):
    """``log(1 + x)`` for x >= 0, with Kahan's correction of the rounded sum."""
    u = 1.0 + x
    rounded = u - 1.0
    return tl.where(rounded == 0.0, x, tl.log(u) * (x / rounded))

@triton.jit
def _expm1(x):
    """``exp(x) - 1``, near 0 by its Taylor series, whose remainder is below 0.35^13 / 14!."""
    series = tl.zeros_like(x)
    for i in tl.static_range(13, 0, -1):
        series = series * x + _EXPM1[i]
    return tl.where(tl.abs(x) < 0.35, series * x, tl.exp(x) - 1.0)

@triton.jit
def _posterior(s, K: tl.constexpr):
    """The two largest scores, ``rest`` and ``tau``; see `measures.posterior`."""
    top, second = tl.maximum(s[0], s[1]), tl.minimum(s[0], s[1])
    for k in tl.static_range(2, K):
        second = tl.maximum(second, tl.minimum(top, s[k]))
        top = tl.maximum(top, s[k])
    if K == 2:
        rest = tl.exp(second - top)
        ratio = [tl.where(v == top, 1.0, rest) for v in s]
    else:
        ratio = [tl.exp(v - top) for v in s]
        rest, ties = tl.zeros_like(top), tl.zeros_like(top) - 1.0  # other classes that tie with the leading one
        for k in tl.static_range(K):
            rest += tl.where(s[k] == top, 0.0, ratio[k])
            ties += tl.where(s[k] == top, 1.0, 0.0)
        rest += ties
    inverse = 1.0 / (1.0 + rest)
    return top, second, rest, [v * inverse for v in ratio]

@triton.jit
def _measured(s, top, second, rest, tau, log1p_rest, K: tl.constexpr, MEASURE: tl.constexpr):
    """The uncertainty and its slopes in the scores; see `measures`."""
    u, slopes = tl.zeros_like(top), ()
    inverse = 1.0 / (1.0 + rest)
    if MEASURE == "margin":
        delta = -_expm1(second - top) * inverse
        short = (rest + (rest if K == 2 else tl.exp(second - top))) * inverse
        u = delta * delta
        followed = u < 0.0  # of tied classes the first is second; if the leading classes tie, delta is zero
        for k in tl.static_range(K):
            follows = (s[k] == second) & (followed == 0)
            followed = followed | follows
            slope = tl.where(s[k] == top, short, tl.where(follows, -1.0, 0.0) - delta)
            slopes = slopes + (slope * tau[k] * (2.0 * delta),)
    elif MEASURE == "entropy":
        surprise = [top - v + log1p_rest for v in s]  # -log tau
        for k in tl.static_range(K):
            u += tau[k] * surprise[k]
        for k in tl.static_range(K):
            slopes = slopes + (tau[k] * (surprise[k] - u),)
    else:
        complement = ()  # 1 - tau
        for k in tl.static_range(K):
            complement = complement + (tl.where(s[k] == top, rest * inverse, 1.0 - tau[k]),)
            u += tau[k] * complement[k]
        for k in tl.static_range(K):
            slopes = slopes + (2.0 * tau[k] * (complement[k] - u),)
    return u, slopes

@triton.jit
def _hazard(eta, shape, rate, far_up, SHAPE: tl.constexpr):
    """``n``, ``dn/deta`` and ``dn/dshape``, with rate 1 / shape; see `links.hazard`."""
    if SHAPE == "zero":
        n = tl.exp(eta)
        return n, tl.minimum(n, _LARGEST), tl.maximum(-0.5 * n * n, -_LARGEST)
    near = tl.minimum(eta, far_up)  # from there on log1p(e^y) is y, and the slope 1 / shape
    growth = tl.exp(near)
    product = shape * growth
    inverse = 1.0 / (1.0 + product)
    log1p_product = _log1p(product) + (eta - near)
    n = tl.where(eta < -345.0, growth, log1p_product * rate)  # where the product would underflow
    shape_slope = (product * inverse - log1p_product) * rate * rate
    if SHAPE == "small":
        series = tl.zeros_like(eta)
        for i in tl.static_range(13, -1, -1):
            series = (i + 1) / (i + 2) - product * series
        shape_slope = tl.where(product < 0.05, -series * growth * growth, shape_slope)
        shape_slope = tl.maximum(shape_slope, -_LARGEST)
    return n, growth * inverse, shape_slope

@triton.jit
def _middle(s, label, weight, numbers, K: tl.constexpr, LABELLED: tl.constexpr, JOINT: tl.constexpr, IGNORABLE: tl.constexpr,
            MEASURE: tl.constexpr, SHAPE: tl.constexpr, FREE_SHAPE: tl.constexpr, SHARE: tl.constexpr):
    """Terms of the six sums, and G, from the scores of rows of class `label`, or of unlabelled rows."""
    alpha_0, alpha_1, shape, rate, far_up, extra, tempering = numbers
    top, second, rest, tau = _posterior(s, K)
    log1p_rest = _log1p(rest)
    g = [tl.zeros_like(v) for v in s]
    loglik, value, by_eta, by_u, by_shape, by_share = g[0], g[0], g[0], g[0], g[0], g[0]
    if MEASURE != "none":
        u, slopes = _measured(s, top, second, rest, tau, log1p_rest, K, MEASURE)
        eta = alpha_1 * u + alpha_0
        n, slope, shape_slope = _hazard(eta, shape, rate, far_up, SHAPE)
        if SHARE:
            n += extra
        if LABELLED:
            value, by_share, by_eta = -n, by_share - 1.0, -slope
        else:
            by_share = 1.0 / _expm1(n)  # the odds against a missing label, and d log q / dn
            value, by_eta = -_log1p(by_share), by_share * slope
            if not SHARE:  # far down log q is eta
                value = tl.where(eta < -690.0, eta, value)
                by_eta = tl.where(eta < -690.0, 1.0, by_eta)
                by_share = tl.minimum(by_share, _LARGEST)
        value, by_share, by_eta = value * weight, by_share * weight, by_eta * weight
        by_u, pull = by_eta * u, by_eta * (tempering * alpha_1)
        g = [pull * v for v in slopes]
        if FREE_SHAPE:
            by_shape = by_share * shape_slope
    if IGNORABLE:
        sign: tl.constexpr = 1.0 if JOINT else -1.0  # the normaliser is added if unlabelled, or subtracted if labelled
        added = ()
        for k in tl.static_range(K):
            g_k = g[k]
            if LABELLED:
                loglik += tl.where(label == k, s[k], 0.0)
                g_k += tl.where(label == k, weight, 0.0)
            if LABELLED != JOINT:
                g_k += sign * tau[k] * weight
            added = added + (g_k,)
        g = added
        if LABELLED != JOINT:
            loglik += sign * (top + log1p_rest)
        loglik *= weight
    return (loglik, value, by_eta, by_u, by_shape, by_share), g

@triton.jit
def _polynomial(x, stride, coefficients, rows, live, K: tl.constexpr, D: tl.constexpr, PRODUCTS: tl.constexpr):
    """Scores from the coefficients (K, P) of ``[1, x, products of x]``."""
    P: tl.constexpr = 1 + D + (D * (D + 1) // 2 if PRODUCTS == "all" else D if PRODUCTS == "squares" else 0)
    zero = tl.zeros_like(rows).to(tl.float64)
    s = ()
    for k in tl.static_range(K):
        s = s + (zero + tl.load(coefficients + k * P),)
    left, pair = x, coefficients + 1 + D
    for i in range(D):
        x_i = tl.load(left + rows, mask=live, other=0.0)
        right, inner, scored = left, (), ()
        for k in tl.static_range(K):
            inner = inner + (zero + tl.load(coefficients + 1 + i + k * P),)
        for _ in range(i, D if PRODUCTS == "all" else i + 1 if PRODUCTS == "squares" else i):
            x_j, longer = tl.load(right + rows, mask=live, other=0.0), ()
            for k in tl.static_range(K):
                longer = longer + (inner[k] + tl.load(pair + k * P) * x_j,)
            inner, right, pair = longer, right + stride, pair + 1
        for k in tl.static_range(K):
            scored = scored + (s[k] + x_i * inner[k],)
        s, left = scored, left + stride
    return s

# without alignment, neighbouring threads take neighbouring rows and loads are scalar; masks would break vector loads
@triton.jit(do_not_specialize=["stride", "g_stride", "begin", "end", "label"],
            do_not_specialize_on_alignment=["x", "weights", "g"])
def _rows(x, stride, coefficients, weights, g, g_stride, partial, begin: tl.int64, end: tl.int64, label: tl.int32,
          alpha_0: tl.float64, alpha_1: tl.float64, shape: tl.float64, rate: tl.float64, far_up: tl.float64,
          extra: tl.float64, tempering: tl.float64, K: tl.constexpr, D: tl.constexpr, PRODUCTS: tl.constexpr,
          WEIGHTED: tl.constexpr, LABELLED: tl.constexpr, JOINT: tl.constexpr, IGNORABLE: tl.constexpr, MEASURE: tl.constexpr,
          SHAPE: tl.constexpr, FREE_SHAPE: tl.constexpr, SHARE: tl.constexpr, TILE: tl.constexpr, STEPS: tl.constexpr):
    """G and six sums of rows ``begin:end`` of class `label` or unlabelled; with PRODUCTS "given", `g` holds the scores."""
    total = [tl.zeros((TILE,), tl.float64) for _ in (0, 1, 2, 3, 4, 5)]
    for step in range(STEPS):
        rows = (begin // TILE + tl.program_id(0).to(tl.int64) * STEPS + step) * TILE + tl.arange(0, TILE)
        live = (rows >= begin) & (rows < end)
        s = ()
        if PRODUCTS == "given":
            for k in tl.static_range(K):
                s = s + (tl.load(g + k * g_stride + rows, mask=live, other=0.0),)
        else:
            s = _polynomial(x, stride, coefficients, rows, live, K, D, PRODUCTS)
        weight = tl.load(weights + rows, mask=live, other=0.0) if WEIGHTED else tl.full((TILE,), 1.0, tl.float64)
        numbers = (alpha_0, alpha_1, shape, rate, far_up, extra, tempering)
        terms, gradient = _middle(s, label, weight, numbers, K, LABELLED, JOINT, IGNORABLE, MEASURE, SHAPE, FREE_SHAPE, SHARE)
        total = [total[q] + tl.where(live, terms[q], 0.0) for q in (0, 1, 2, 3, 4, 5)]
        for k in tl.static_range(K):
            tl.store(g + k * g_stride + rows, gradient[k], mask=live)
    for q in tl.static_range(6):
        tl.store(partial + tl.program_id(0) * 6 + q, tl.sum(total[q], axis=0))

@triton.jit(do_not_specialize=["end"])
def _moments(x, stride, ones, g, g_stride, partial, end: tl.int64,
             K: tl.constexpr, D: tl.constexpr, SIDE: tl.constexpr, TILE: tl.constexpr, STEPS: tl.constexpr):
    """Sums of ``G_k [1; x] [1; x]'``, (SIDE, SIDE), for one class over a run of tiles of the rows ``:end``."""
    i, t = tl.arange(0, SIDE), tl.arange(0, TILE)
    feature = x + (i - 1).to(tl.int64) * stride
    weights = g + tl.program_id(0).to(tl.int64) * g_stride
    run = tl.program_id(1).to(tl.int64)
    total = tl.zeros((SIDE, SIDE), tl.float64)
    for step in range(STEPS):
        rows = (run * STEPS + step) * TILE + t
        live = rows < end
        # ones are read from memory: if inserted later, x_1 would go through shared memory twice
        place = tl.where(i[:, None] == 0, ones + t[None, :], feature[:, None] + rows[None, :])
        x_1 = tl.load(place, mask=(i <= D)[:, None] & live[None, :], other=0.0)
        g_k = tl.load(weights + rows, mask=live, other=0.0)
        total += tl.dot(x_1 * g_k[None, :], tl.trans(x_1), out_dtype=tl.float64)
    tl.store(partial + ((run * K + tl.program_id(0)) * SIDE + i[:, None]) * SIDE + i[None, :], total)


# fmt: on
# Host code: cut the rows into blocks, launch the kernels, add the results.


def _case(model: Any, mechanism: Mechanism | None, ignorable: bool, tempering: float) -> dict[str, Any]:
    """Arguments of `_rows` for a likelihood: numbers, and compile-time constants."""
    m = Mechanism() if mechanism is None else mechanism
    shape = m.shape if m.shape > _NO_SHAPE else 0.0
    rate, far_up = (1.0 / shape, _FAR_UP - max(log(shape), 0.0)) if shape else (0.0, _FAR_UP)
    return {
        "alpha_0": float(m.alpha[0]), "alpha_1": float(m.alpha[1]), "shape": float(shape), "rate": float(rate),
        "far_up": far_up, "extra": m.extra, "tempering": float(tempering),
        "K": model.n_classes, "JOINT": model.joint, "IGNORABLE": ignorable,
        "MEASURE": "none" if mechanism is None else m.measure,
        "SHAPE": "zero" if not shape else "small" if m.free_shape and shape <= _SMALL_SHAPE else "plain",
        "FREE_SHAPE": m.free_shape, "SHARE": m.share > 0.0,
    }  # fmt: skip


def _fill(g: Tensor, x: Tensor, weight: Tensor | None, cuts: list[int], coefficients: Tensor, case: Any) -> Tensor:
    """Write G of a block of rows to `g`, and return their six sums."""
    tile, warps, steps = next(cut for most, cut in ROWS.items() if g.shape[0] <= most)
    sums = torch.zeros(6, dtype=x.dtype, device=x.device)
    for label, (begin, end) in enumerate(pairwise([*cuts, g.shape[1]])):
        if begin == end:
            continue
        programs = triton.cdiv(triton.cdiv(end, tile) - begin // tile, steps)
        partial = torch.empty((programs, 6), dtype=x.dtype, device=x.device)
        _rows[(programs,)](
            x, x.stride(0), coefficients, x if weight is None else weight, g, g.stride(0), partial, begin, end, label,
            D=x.shape[0], WEIGHTED=weight is not None, LABELLED=label < g.shape[0],
            TILE=tile, STEPS=steps, num_warps=warps, **case,
        )  # fmt: skip
        sums += partial.sum(0)
    return sums


def _squares(g: Tensor, x: Tensor) -> Tensor:
    """``sum_j G_jk [1; x_j] [1; x_j]'`` over a block of rows, (K, 1 + d, 1 + d)."""
    (classes, n), d = g.shape, x.shape[0]
    side, (tile, warps, steps) = next((most, cut) for most, cut in MOMENTS.items() if d < most)
    runs = triton.cdiv(triton.cdiv(n, tile), steps)
    partial = torch.empty((runs, classes, side, side), dtype=x.dtype, device=x.device)
    _moments[(classes, runs)](
        x, x.stride(0), torch.ones(tile, dtype=x.dtype, device=x.device), g, g.stride(0), partial, n,
        K=classes, D=d, SIDE=side, TILE=tile, STEPS=steps, num_warps=warps,
    )  # fmt: skip
    return partial.sum(0)[:, : 1 + d, : 1 + d]


def _products(model: Any) -> str:
    """Products of features in the scores; empty if the kernels do not implement the model."""
    if isinstance(model, LinearScores):
        return "all" if model.degree == 2 else "none"
    if type(model) is GaussianScores and model.single:
        return model.structure.products
    return ""


def _coefficients(model: Any, prepared: Tensor) -> Tensor:
    """Coefficients (K, P) of ``[1, x, products]`` in the scores, from the model's `prepare`."""
    if isinstance(model, LinearScores) and model.vectors == 1:
        return torch.cat([torch.zeros_like(prepared), prepared])
    if prepared.ndim == 2:
        return prepared.contiguous()
    white = prepared[:, 1:, :]  # `WideFull` whitens rows with it and takes their squared length
    row, column = torch.triu_indices(white.shape[2], white.shape[2], device=white.device)
    coefficients = (white.mT @ white)[:, row, column] * (0.5 * (row == column) - 1.0)
    coefficients[:, 0] += prepared[:, 0, 0]
    return coefficients


def _moments_of(model: Any, squares: Tensor, whitened: bool) -> Tensor:
    """``sum_j G_jk [1; x_j] [1; x_j]'`` in the form of the model's `block_moments`."""
    if isinstance(model, LinearScores):
        squares = squares[-model.vectors :]
    elif whitened:
        return torch.cat([squares[:, 0, :1], squares[:, 1:].flatten(1)], dim=1)
    if _products(model) == "all":
        row, column = torch.triu_indices(squares.shape[2], squares.shape[2], device=squares.device)
        return squares[:, row, column]
    diagonal = squares.diagonal(dim1=1, dim2=2)[:, 1:]
    return torch.cat([squares[:, 0], diagonal], dim=1) if _products(model) == "squares" else squares[:, 0]


def supports(model: Any, mechanism: Mechanism | None, x: Tensor | None = None) -> bool:
    """Whether `fused_sums` implements this likelihood and, if given, rows like `x`."""
    if mechanism is not None and (not mechanism.measured.fused or len(mechanism.alpha) != 2 or mechanism.label):
        return False
    on_cuda = not isinstance(_rows, triton.JITFunction) or (torch.cuda.is_available() if x is None else x.is_cuda)
    implemented = bool(_products(model)) and model.n_classes <= _MOST_CLASSES
    return on_cuda and implemented and (x is None or (x.dtype == torch.float64 and x.stride(1) == 1))


def fused_sums(
    block: Block,
    model: Any,
    prepared: Tensor,
    mechanism: Mechanism | None,
    ignorable: bool = True,
    tempering: float = 1.0,
    wide: bool | None = None,
) -> Sums:
    """`block_sums` for rows on a device, with tensors for arrays and numbers; the block may be as large as fits there.

    `wide` is whether scores and moments are matrix products of the model; None to decide by the number of features.
    """
    x: Any = block.x
    weight: Any = block.weight
    if not supports(model, mechanism, x):
        raise ValueError(
            "There is no kernel for these rows or this likelihood: check with `supports`, or use block_sums."
        )
    (d, n), classes, parts = x.shape, model.n_classes, []
    wide = d > _MOST_FEATURES if wide is None else wide
    coefficients = prepared if wide else _coefficients(model, prepared)
    case = _case(model, mechanism, ignorable, tempering) | {"PRODUCTS": "given" if wide else _products(model)}
    size = max((_BLOCK_WIDE // (1 + d) if wide else _BLOCK_G) // classes // 4096, 1) * 4096
    with torch.cuda.device(x.device) if x.is_cuda else nullcontext():
        for start in range(0, n, size):
            rows, w = x[:, start : start + size], None if weight is None else weight[start : start + size]
            cuts = [min(max(int(cut) - start, 0), rows.shape[1]) for cut in block.cuts]
            if wide:
                phi: Any = expanded(rows, model.n_features(), model.fill)
                g = model.block_scores(prepared, phi)[0].contiguous()
            else:
                g = torch.empty((classes, rows.shape[1]), dtype=x.dtype, device=x.device)
            total: Any = _fill(g, rows, w, cuts, coefficients, case)
            moments: Any = (
                model.block_moments(g, None, phi) if wide else _moments_of(model, _squares(g, rows), prepared.ndim == 3)
            )
            slopes, m = tempering * total[2:], mechanism
            share = slopes[3] / (1.0 - m.share) if m is not None and m.free_share else 0.0
            parts.append(Sums(total[0], total[1], Moments(moments), slopes[: 0 if m is None else 2], slopes[2], share))
    return sum(parts[1:], parts[0])
