"""Trains the little network behind `make demo` and saves it as digits.pt, the way most people save a checkpoint.

The data are digits that this script draws itself: a 5x7 dot-matrix font, scaled, turned, sheared, shifted and covered
with noise, so nothing is downloaded. The network has what a converter must get right: convolutions with batch norm,
one of them square (32 channels in and out, so that its layout cannot be read from its shape), and linear layers
behind a flatten.

    python demo/train.py            # needs torch 2.13; some ten seconds on two cores; writes demo/digits.pt

The committed digits.pt was made by exactly this script with torch 2.13.0 on the CPU: it reads more than 99 % of
unseen digits right."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

# Rows of five dots from the top, one digit after another.
FONT = """
01110 10001 10011 10101 11001 10001 01110
00100 01100 00100 00100 00100 00100 01110
01110 10001 00001 00110 01000 10000 11111
11111 00010 00100 00010 00001 10001 01110
00010 00110 01010 10010 11111 00010 00010
11111 10000 11110 00001 00001 10001 01110
00110 01000 10000 11110 10001 10001 01110
11111 00001 00010 00100 01000 01000 01000
01110 10001 10001 01110 10001 10001 01110
01110 10001 10001 01111 00001 00010 01100
"""

SIZE = 28


def glyphs():
    """The ten digits as images [10, 1, 28, 28] with values 0 and 1."""
    rows = [[int(dot) for dot in row] for row in FONT.split()]
    small = torch.tensor(rows, dtype=torch.float32).view(10, 1, 7, 5)
    large = F.interpolate(small, scale_factor=2, mode="nearest")
    return F.pad(large, (9, 9, 7, 7))


def draw(n):
    """n random digits: images [n, 1, 28, 28] and labels [n]."""
    labels = torch.randint(0, 10, (n,))
    angle, shear = torch.randn(n) * 0.15, torch.randn(n) * 0.15
    zoom_x, zoom_y = 1 / (1.3 + 0.3 * torch.rand(n)), 1 / (1.2 + 0.3 * torch.rand(n))
    shift = (torch.rand(n, 2) - 0.5) * 0.3
    cos, sin = torch.cos(angle), torch.sin(angle)
    top = torch.stack([zoom_x * cos, zoom_x * (shear * cos - sin), shift[:, 0]], 1)
    bottom = torch.stack([zoom_y * sin, zoom_y * (shear * sin + cos), shift[:, 1]], 1)
    grid = F.affine_grid(torch.stack([top, bottom], 1), (n, 1, SIZE, SIZE), align_corners=False)
    images = F.grid_sample(glyphs()[labels], grid, align_corners=False)
    return images * (0.6 + 0.4 * torch.rand(n, 1, 1, 1)) + 0.15 * torch.randn(n, 1, SIZE, SIZE), labels


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv3, self.bn3 = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.fc1, self.fc2 = nn.Linear(32 * 2 * 2, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = F.adaptive_max_pool2d(F.relu(self.bn3(self.conv3(x))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def train(model, steps=150, batch=128):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    model.train()
    for step in range(steps):
        images, labels = draw(batch)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.3f}")


@torch.no_grad()
def accuracy(model, n=5000):
    model.eval()
    images, labels = draw(n)
    return (model(images).argmax(1) == labels).float().mean().item()


def main():
    torch.manual_seed(20)
    model = Digits()
    train(model)
    right = accuracy(model)
    print(f"{right:.1%} of 5000 unseen digits are read right")
    if right < 0.95:
        raise SystemExit("training failed; digits.pt is left as it was")
    path = Path(__file__).with_name("digits.pt")
    torch.save(model.state_dict(), path)
    print(f"wrote {path.name}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
