"""The convolutions of Code2Wav, one class a link of the chain from frames to samples."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import Parameter

_TINY = 1e-9


class Part(nn.Module):
    """What stands in the chain from frames to samples; x is [B, C, T].

    Positions are counted from the end: the last `n` that it makes need the last `needs(n)` of x.
    """

    def needs(self, made: int) -> int:
        return made


class Causal(Part):
    """A convolution that looks back only: as many steps come out as went in."""

    def __init__(
        self, width: int, out: int, kernel: int, *, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.back = (kernel - 1) * dilation
        self.conv = nn.Conv1d(width, out, kernel, dilation=dilation, groups=groups)

    def needs(self, made: int) -> int:
        return made + self.back

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.conv(functional.pad(x, (self.back, 0)))
        return made


class Stretch(Part):
    """`rate` steps for each, less what the kernel hangs over at both ends."""

    def __init__(self, width: int, out: int, kernel: int, rate: int) -> None:
        super().__init__()
        self.cut = kernel - rate
        self.rate = rate
        self.conv = nn.ConvTranspose1d(width, out, kernel, stride=rate)

    def needs(self, made: int) -> int:
        return -(-(made + self.cut) // self.rate)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.conv(x)
        return made[..., self.cut : made.shape[-1] - self.cut]


class ConvNeXt(Part):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = Causal(width, width, 7, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = Parameter(torch.empty(width))

    def needs(self, made: int) -> int:
        return self.dwconv.needs(made)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.norm(self.dwconv(x).transpose(1, 2))
        rows = self.gamma * self.pwconv2(functional.gelu(self.pwconv1(rows)))
        made: Tensor = x + rows.transpose(1, 2)
        return made


class SnakeBeta(Part):
    """`x + sin(a x)² / b`, with a and b in logarithms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = Parameter(torch.empty(width))
        self.beta = Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        rate: Tensor = self.alpha.exp()[:, None]
        depth: Tensor = self.beta.exp()[:, None]
        made: Tensor = x + torch.sin(x * rate).square() / (depth + _TINY)
        return made


class Residual(Part):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.act1 = SnakeBeta(width)
        self.conv1 = Causal(width, width, 7, dilation=dilation)
        self.act2 = SnakeBeta(width)
        self.conv2 = Causal(width, width, 1)

    def needs(self, made: int) -> int:
        return self.conv1.needs(made)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = x + self.conv2(self.act2(self.conv1(self.act1(x))))
        return made


class Block(nn.Module):
    def __init__(self, width: int, out: int, rate: int) -> None:
        super().__init__()
        self.block = nn.ModuleList(
            [
                SnakeBeta(width),
                Stretch(width, out, 2 * rate, rate),
                *(Residual(out, dilation) for dilation in (1, 3, 9)),
            ]
        )
