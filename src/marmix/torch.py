"""The missingness mechanism as a loss for networks in PyTorch.

Unlike most of marmix this module needs PyTorch, and is imported by its name: ``from marmix.torch import
MissingnessLoss``.
"""
# The mechanism's arrays are torch's here, and torch may not be there when types are checked.
# mypy: disable-error-code="no-untyped-call, arg-type, return-value, override, unused-ignore"

from dataclasses import replace
from typing import Any

from marmix.core.arrays import quiet
from marmix.core.measures import MeasureLike, posterior
from marmix.core.mechanism import Mechanism

try:
    import torch
    from torch import Tensor, nn
    from torch.autograd.function import once_differentiable
except ImportError as error:
    raise ImportError("marmix.torch needs PyTorch: pip install 'marmix[gpu]'.") from error

__all__ = ["MissingnessLoss"]

# Where NumPy computes the mechanism, in half the time of torch or less.
_NUMPY_DEVICES = ("cpu",)


class MissingnessLoss(nn.Module):
    r"""Cross-entropy of the labels minus the log-likelihood of the missing indicators.

    For a batch of rows with logits :math:`s_j` and weights :math:`w_j` the loss is

    .. math::

        \frac{1}{\sum_j w_j} \left[ - \sum_{j\ \text{labelled}} w_j \log \tau_{j y_j} - \omega \sum_j w_j l_j \right],
        \qquad \tau_j = \mathrm{softmax}(s_j),

    where omega is `mechanism_weight` and l_j is the log-likelihood of the row's missing indicator, whose probability
    depends on the network's uncertainty u_j through :math:`\eta_j = \alpha_0 + \alpha_1 u_j`. The sums are divided by
    the weight of all rows in the batch, labelled or not, so that the mean over mini-batches of equal size is the loss
    of the whole data set.

    ``alpha`` is a parameter of the module, to be given to the optimiser, or is set by `profile` after each epoch. It
    starts at the missing rate of the first batch with slope zero, where the mechanism has no influence on the network.
    The slope has no bounds.

    Parameters
    ----------
    link : {"logit", "cloglog", "aranda-ordaz"}, default="logit"
        How the probability of a missing label depends on eta. With "aranda-ordaz" and no `shape`, the shape is that of
        the logit until `profile` estimates it.
    shape : float or None, default=None
        Shape of the Aranda-Ordaz link.
    measure : str or callable, default="entropy"
        The measure u, as in `marmix.MARGaussianMixture`.
    mcar_share : bool, default=False
        Whether `profile` also estimates a share of labels that are missing completely at random.
    mechanism_weight : float, default=1.0
        Weight of the missing indicators. It may be changed during the training; at 0 only the labels count.
    missing_rate : float or None, default=None
        Share of missing labels in the data, for the start of alpha. None takes it from the first batch.
    train_alpha : bool, default=True
        Whether alpha is a parameter. If False it is a buffer, and only `profile` changes it.

    Attributes
    ----------
    alpha : Parameter or Tensor of shape (2,)
        Intercept and slope of eta.

    Raises
    ------
    ValueError
        If an option cannot be used.

    See Also
    --------
    marmix.objectives.MissingnessObjective : The same loss for boosting libraries.
    marmix.Mechanism : Links and measures of uncertainty.

    Notes
    -----
    Gradients are analytic and exact, without clipping, also for logits of 1e4 and more. The mechanism is computed in
    double precision on the device of the logits, whatever their dtype. Second derivatives through autograd are not
    available.

    Examples
    --------
    A batch of four rows, two of which have no label:

    >>> import torch
    >>> from marmix.torch import MissingnessLoss
    >>> logits = torch.tensor([[4.0, 0.0], [0.2, 0.0], [0.0, 3.0], [0.0, 0.1]], requires_grad=True)
    >>> targets = torch.tensor([0, -1, 1, -1])
    >>> loss = MissingnessLoss()
    >>> value = loss(logits, targets)
    >>> print(f"{value.item():.3f}")
    0.710

    The rows without a label are those that the network is unsure of, so the gradient raises the slope of the mechanism:

    >>> value.backward()
    >>> bool(loss.alpha.grad[1] < 0)
    True

    In training, the optimiser gets the parameters of the network and alpha:

    .. code-block:: python

        optimiser = torch.optim.AdamW([*network.parameters(), *loss.parameters()])
        for x, y in batches:  # y is -1 where the label is missing
            optimiser.zero_grad()
            loss(network(x), y).backward()
            optimiser.step()
    """

    def __init__(
        self,
        *,
        link: str = "logit",
        shape: float | None = None,
        measure: MeasureLike = "entropy",
        mcar_share: bool = False,
        mechanism_weight: float = 1.0,
        missing_rate: float | None = None,
        train_alpha: bool = True,
    ):
        super().__init__()
        if mechanism_weight < 0.0:
            raise ValueError(f"mechanism_weight={mechanism_weight!r} must not be negative.")
        if missing_rate is not None and not 0.0 < missing_rate < 1.0:
            raise ValueError(f"missing_rate={missing_rate!r} must lie between 0 and 1.")
        self.mechanism_weight = mechanism_weight
        self._options = Mechanism.from_link(link, shape, measure, mcar_share)  # its alpha is not used
        if train_alpha:
            self.alpha = nn.Parameter(torch.zeros(2))
        else:
            self.register_buffer("alpha", torch.zeros(2))
        self._started = False
        if missing_rate is not None:
            self._become(self._options.starting(missing_rate))

    def forward(
        self, logits: Tensor, targets: Tensor, weight: Tensor | None = None, missing: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch, a scalar.

        Parameters
        ----------
        logits : Tensor of shape (n, K)
            Output of the network.
        targets : integer Tensor of shape (n,)
            The class, or -1 where the label is missing.
        weight : Tensor of shape (n,) or None, default=None
            Weight of each row.
        missing : Tensor of bool, shape (n,), or None, default=None
            Whether the label was missing when the data came; by default where the target is -1.

        Returns
        -------
        Tensor
            A scalar, with gradients in the logits and in alpha.

        Raises
        ------
        ValueError
            If shapes do not fit together.
        """
        missing = _missing(logits, targets, weight, missing)
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        loss = nn.functional.cross_entropy(logits, targets.long(), ignore_index=-1, reduction="none")
        size = logits.shape[0] if weight is None else weight.sum().to(loss.dtype)
        labels = (loss if weight is None else loss * weight.to(loss.dtype)).sum()
        if not self.mechanism_weight:
            return labels / size
        if not self._started:
            self._become(self._options.starting((float(missing.sum()) + 0.5) / (len(missing) + 1.0)))
        indicators = _MissingIndicators.apply(logits, self.alpha, missing, weight, self._options)
        return (labels - self.mechanism_weight * indicators) / size

    def mechanism(self) -> Mechanism:
        """Return the mechanism with the present alpha, shape and share.

        Returns
        -------
        Mechanism
            A copy, which later training does not change.
        """
        return self._options.moved(self.alpha.detach())

    def missing_proba(self, logits: Tensor) -> Tensor:
        """Return the probability that the label is missing, for rows with given logits.

        Parameters
        ----------
        logits : Tensor of shape (n, K)
            Output of the network.

        Returns
        -------
        Tensor of shape (n,)
            Probabilities q.
        """
        return self.mechanism().missing_proba(logits)

    @torch.no_grad()
    def profile(
        self, logits: Tensor, targets: Tensor, weight: Tensor | None = None, missing: Tensor | None = None
    ) -> Mechanism:
        """Set alpha to its estimate for given logits, and the shape and share if they are free; return the mechanism.

        Use rows held out of the training, labelled and unlabelled ones: the network is certain of labels that it has
        learnt by heart, so its training rows make the slope too steep.

        Parameters
        ----------
        logits : Tensor of shape (n, K)
            Output of the network.
        targets : integer Tensor of shape (n,)
            The class, or -1 where the label is missing.
        weight : Tensor of shape (n,) or None, default=None
            Weight of each row.
        missing : Tensor of bool, shape (n,), or None, default=None
            Whether the label was missing when the data came; by default where the target is -1.

        Returns
        -------
        Mechanism
            The estimated mechanism.

        Raises
        ------
        ValueError
            If shapes do not fit together.
        """
        missing = _missing(logits, targets, weight, missing)
        self._become(self._options.profile(logits.double(), missing, weight))
        return self.mechanism()

    def get_extra_state(self) -> dict[str, Any]:
        """Return what `state_dict` holds besides alpha.

        Returns
        -------
        dict
            Shape and share of the mechanism, and whether alpha has its starting value.
        """
        return {"shape": self._options.shape, "share": self._options.share, "started": self._started}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_extra_state` returned.

        Parameters
        ----------
        state : dict
            Shape and share of the mechanism, and whether alpha has its starting value.
        """
        self._options = replace(self._options, shape=state["shape"], share=state["share"])
        self._started = state["started"]

    def _become(self, mechanism: Mechanism) -> None:
        with torch.no_grad():
            self.alpha.copy_(torch.tensor(mechanism.alpha, dtype=torch.float64))
        self._options, self._started = mechanism, True


def _missing(logits: Tensor, targets: Tensor, weight: Tensor | None, missing: Tensor | None) -> Tensor:
    """Whether labels were missing when the data came, for arrays of one value per row."""
    for values in (targets, weight, missing):
        if values is not None and values.shape != logits.shape[:1]:
            raise ValueError("logits must have shape (n, K), and targets, weight and missing one value per row, (n,).")
    return targets < 0 if missing is None else missing | (targets < 0)


class _MissingIndicators(torch.autograd.Function):
    """Log-likelihood of the missing indicators of a batch, with its analytic gradients in the logits and in alpha."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, alpha: Tensor, missing: Tensor, weight: Tensor | None, options: Mechanism
    ) -> Tensor:
        on_host = logits.device.type in _NUMPY_DEVICES

        def array(tensor: Tensor) -> Any:
            return tensor.detach().numpy() if on_host else tensor.detach()

        intercept, slope = array(alpha.double())  # stays on its device: reading its values would make the host wait
        mechanism = replace(options, alpha=(intercept, slope))
        with quiet():
            u, du = mechanism.measured(posterior(array(logits.double().T.contiguous())))
            eta = mechanism.eta(u[None, :])
            w = None if weight is None else array(weight.double())
            loglik, eta_slope, _ = mechanism.indicator_terms(eta, array(missing), w)
            du *= slope * eta_slope
        results = (du.T, eta_slope.sum(), (eta_slope * u).sum(), loglik.sum())
        by_logits, by_level, by_slope, total = (torch.as_tensor(result, device=logits.device) for result in results)
        ctx.save_for_backward(by_logits.to(logits.dtype), torch.stack([by_level, by_slope]).to(alpha.dtype))
        return total.to(logits.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        by_logits, by_alpha = ctx.saved_tensors
        return upstream * by_logits, upstream.to(by_alpha.dtype) * by_alpha, None, None, None
