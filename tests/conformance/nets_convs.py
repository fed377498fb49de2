"""Networks about convolutions: transposed, grouped, square and 3-D ones, U-Net, DCGAN, VAE, bare Sequentials."""

import torch
import torch.nn.functional as F
from torch import nn


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, i // 2, 2, 2)
        self.conv = DoubleConv(i, o)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class OutConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    """milesial/Pytorch-UNet, narrower."""

    def __init__(self, width=8):
        super().__init__()
        self.inc = DoubleConv(3, width)
        self.down1, self.down2 = Down(width, width * 2), Down(width * 2, width * 4)
        self.down3, self.down4 = Down(width * 4, width * 8), Down(width * 8, width * 16)
        self.up1, self.up2 = Up(width * 16, width * 8), Up(width * 8, width * 4)
        self.up3, self.up4 = Up(width * 4, width * 2), Up(width * 2, width)
        self.outc = OutConv(width, 2)

    def forward(self, x):
        skips = [self.inc(x)]
        for down in [self.down1, self.down2, self.down3, self.down4]:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in [self.up1, self.up2, self.up3, self.up4]:
            x = up(x, skips.pop())
        return self.outc(x)


class Generator(nn.Module):
    """The DCGAN generator of pytorch/examples: transposed convolutions without bias."""

    def __init__(self, nz=20, ngf=4):
        super().__init__()
        layers, channels = [], nz
        for i, o in enumerate([ngf * 8, ngf * 4, ngf * 2, ngf]):
            stride, padding = (1, 0) if i == 0 else (2, 1)
            layers += [nn.ConvTranspose2d(channels, o, 4, stride, padding, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
            channels = o
        self.main = nn.Sequential(*layers, nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self, ndf=4):
        super().__init__()
        layers, channels = [nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)], ndf
        for o in [ndf * 2, ndf * 4, ndf * 8]:
            layers += [nn.Conv2d(channels, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2)]
            channels = o
        self.main = nn.Sequential(*layers, nn.Conv2d(channels, 1, 4, 1, 0, bias=False), nn.Sigmoid())


class SquareConvs(nn.Module):
    """in = out = kernel = 3: shapes say nothing, names say convolution."""

    def __init__(self):
        super().__init__()
        self.conv1d, self.conv2d = nn.Conv1d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return self.conv1d(self.conv2d(x).mean(2))


class SquareTransposed(nn.Module):
    """The same with transposed convolutions: only the class, or the caller, can tell."""

    def __init__(self):
        super().__init__()
        self.up1, self.up2 = nn.ConvTranspose1d(3, 3, 3), nn.ConvTranspose2d(3, 3, 3)

    def forward(self, x):
        return self.up1(self.up2(x).mean(2))


class Grouped(nn.Module):
    """Grouped and depthwise convolutions of both ranks, each with the bias or the norm that tells its channels."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(8, 12, 3, padding=1, groups=4)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False)
        self.bn = nn.BatchNorm2d(12)
        self.multiplier = nn.Conv2d(12, 24, 3, padding=1, groups=12)
        self.pointwise = nn.Conv2d(24, 6, 1)
        self.conv1d = nn.Conv1d(6, 9, 3, groups=3)

    def forward(self, x):
        x = F.relu(self.bn(self.depthwise(F.relu(self.grouped(x)))))
        return self.conv1d(self.pointwise(self.multiplier(x)).mean(2))


class GroupedTransposed(nn.Module):
    """Grouped transposed convolutions whose bias tells the groups: O = 12 = 2 x 6, O = 15 = 3 x 5."""

    def __init__(self, bias=True):
        super().__init__()
        self.up2d = nn.ConvTranspose2d(8, 12, (3, 4), 2, groups=2, bias=bias)
        self.up1d = nn.ConvTranspose1d(12, 15, 5, groups=3, bias=bias)

    def forward(self, x):
        return self.up1d(self.up2d(x).mean(2))


class Video(nn.Module):
    """C3D / R3D-like: 3-D convolutions with and without bias, BatchNorm3d."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, 8, (3, 7, 7), (1, 2, 2), bias=False), nn.BatchNorm3d(8), nn.ReLU())
        self.conv2 = nn.Conv3d(8, 16, 3, padding=1)
        self.conv3 = nn.Conv3d(16, 16, 3, padding=1)
        self.fc = nn.Linear(16, 5)


class ConvVae(nn.Module):
    """The usual convolutional VAE: Sequential encoder and decoder, transposed convolutions with bias."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.fc_mu, self.fc_var = nn.Linear(256, 12), nn.Linear(256, 12)
        self.decoder_input = nn.Linear(12, 256)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Sigmoid()
        )


def root_sequential():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(128, 10))


def root_mlp():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
