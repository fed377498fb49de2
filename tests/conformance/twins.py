"""mlx.nn twins of models in the zoo, written by hand with PyTorch's names, and the inputs to compare both with.

Images and sequences are channels-last inside the twin; `run` takes torch's input and gives torch's layout back."""

import math
from dataclasses import dataclass
from typing import Callable

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import torch


def to_mlx(x):
    return mx.array(x.numpy())


def channels_last(x):
    """torch [N, C, ...] -> mlx [N, ..., C]"""
    return mx.moveaxis(to_mlx(x), 1, -1)


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
        self.fc1, self.fc2 = nn.Linear(16 * 12 * 12, 32), nn.Linear(32, 10)

    def __call__(self, x):
        x = nn.MaxPool2d(2)(nn.relu(self.conv2(nn.relu(self.conv1(channels_last(x))))))
        x = mx.moveaxis(x, -1, 1).flatten(1)  # torch flattens channels first
        return nn.log_softmax(self.fc2(nn.relu(self.fc1(x))), axis=1)


class BasicBlock(nn.Module):
    def __init__(self, i, o, stride=1, downsample=False):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm(o)
        if downsample:
            self.downsample = [nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm(o)]

    def __call__(self, x):
        out = self.bn2(self.conv2(nn.relu(self.bn1(self.conv1(x)))))
        if "downsample" in self:
            x = self.downsample[1](self.downsample[0](x))
        return nn.relu(out + x)


class ResBlockNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm(8)
        self.blocks = [BasicBlock(8, 8), BasicBlock(8, 16, 2, True)]
        self.fc = nn.Linear(16, 10)

    def __call__(self, x):
        x = nn.relu(self.bn(self.stem(channels_last(x))))
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((1, 2)))


class ResNet18(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm(width)
        self.layer1 = [BasicBlock(width, width), BasicBlock(width, width)]
        self.layer2 = [BasicBlock(width, width * 2, 2, True), BasicBlock(width * 2, width * 2)]
        self.layer3 = [BasicBlock(width * 2, width * 4, 2, True), BasicBlock(width * 4, width * 4)]
        self.layer4 = [BasicBlock(width * 4, width * 8, 2, True), BasicBlock(width * 8, width * 8)]
        self.fc = nn.Linear(width * 8, 10)

    def __call__(self, x):
        x = nn.MaxPool2d(3, 2, 1)(nn.relu(self.bn1(self.conv1(channels_last(x)))))
        for block in [*self.layer1, *self.layer2, *self.layer3, *self.layer4]:
            x = block(x)
        return self.fc(x.mean((1, 2)))


class EncoderLayer(nn.Module):
    """torch's TransformerEncoderLayer from MLX parts; nn.TransformerEncoderLayer of MLX has no attention biases."""

    def __init__(self, dim, heads, hidden, norm_first):
        super().__init__()
        self.self_attn = nn.MultiHeadAttention(dim, heads, bias=True)
        self.linear1, self.linear2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.first = norm_first

    def feed_forward(self, x):
        return self.linear2(nn.relu(self.linear1(x)))

    def __call__(self, x):
        if self.first:
            y = self.norm1(x)
            x = x + self.self_attn(y, y, y)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.self_attn(x, x, x))
        return self.norm2(x + self.feed_forward(x))


class LoneEncoderLayer(EncoderLayer):
    def __init__(self):
        super().__init__(32, 4, 64, True)

    def __call__(self, x):
        return super().__call__(to_mlx(x))


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.pe = nn.Embedding(50, 32), mx.zeros((1, 40, 32))
        self.encoder = nn.Module()
        self.encoder.layers = [EncoderLayer(32, 4, 64, False) for _ in range(2)]
        self.classifier = nn.Linear(32, 5)

    def __call__(self, tokens):
        x = self.embedding(to_mlx(tokens)) + self.pe[:, : tokens.shape[1]]
        for layer in self.encoder.layers:
            x = layer(x)
        return self.classifier(x.mean(1))


class Autoencoder1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = [nn.Conv1d(2, 8, 5, 2, 2), nn.ReLU(), nn.Conv1d(8, 16, 5, 2, 2), nn.ReLU()]
        up = nn.ConvTranspose1d
        self.decoder = [up(16, 8, 5, 2, 2, output_padding=1), nn.ReLU(), up(8, 2, 5, 2, 2, output_padding=1)]

    def __call__(self, x):
        x = channels_last(x)
        for layer in [*self.encoder, *self.decoder]:
            x = layer(x)
        return mx.moveaxis(x, -1, 1)


class SquareConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1d, self.conv2d = nn.Conv1d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)

    def __call__(self, x):
        return mx.moveaxis(self.conv1d(self.conv2d(channels_last(x)).mean(1)), -1, 1)


class SquareTransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up1, self.up2 = nn.ConvTranspose1d(3, 3, 3), nn.ConvTranspose2d(3, 3, 3)

    def __call__(self, x):
        return mx.moveaxis(self.up1(self.up2(channels_last(x)).mean(1)), -1, 1)


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(8, 12, 3, padding=1, groups=4)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False)
        self.bn = nn.BatchNorm(12)
        self.multiplier, self.pointwise = nn.Conv2d(12, 24, 3, padding=1, groups=12), nn.Conv2d(24, 6, 1)
        self.conv1d = nn.Conv1d(6, 9, 3, groups=3)

    def __call__(self, x):
        x = nn.relu(self.bn(self.depthwise(nn.relu(self.grouped(channels_last(x))))))
        return mx.moveaxis(self.conv1d(self.pointwise(self.multiplier(x)).mean(1)), -1, 1)


class GroupedUp(nn.Module):
    """mlx.nn's transposed layers take no groups; the function does, with weights [O, k..., I/g]."""

    def __init__(self, shape, function, **arguments):
        super().__init__()
        self.weight, self.bias = mx.zeros(shape), mx.zeros(shape[0])
        self.call = lambda x, w: function(x, w, **arguments)

    def __call__(self, x):
        return self.call(x, self.weight) + self.bias


class GroupedTransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up2d = GroupedUp((12, 3, 4, 4), mx.conv_transpose2d, stride=2, groups=2)
        self.up1d = GroupedUp((15, 5, 4), mx.conv_transpose1d, groups=3)

    def __call__(self, x):
        return mx.moveaxis(self.up1d(self.up2d(channels_last(x)).mean(1)), -1, 1)


class Generator(nn.Module):
    def __init__(self, nz=20, ngf=4):
        super().__init__()
        self.main, channels = [], nz
        for i, o in enumerate([ngf * 8, ngf * 4, ngf * 2, ngf]):
            stride, padding = (1, 0) if i == 0 else (2, 1)
            self.main += [nn.ConvTranspose2d(channels, o, 4, stride, padding, bias=False), nn.BatchNorm(o), nn.ReLU()]
            channels = o
        self.main += [nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh()]

    def __call__(self, x):
        x = channels_last(x)
        for layer in self.main:
            x = layer(x)
        return mx.moveaxis(x, -1, 1)


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        conv = lambda a, b: nn.Conv2d(a, b, 3, padding=1, bias=False)
        self.double_conv = [conv(i, o), nn.BatchNorm(o), nn.ReLU(), conv(o, o), nn.BatchNorm(o), nn.ReLU()]

    def __call__(self, x):
        for layer in self.double_conv:
            x = layer(x)
        return x


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = [nn.MaxPool2d(2), DoubleConv(i, o)]

    def __call__(self, x):
        return self.maxpool_conv[1](self.maxpool_conv[0](x))


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(i, i // 2, 2, 2), DoubleConv(i, o)

    def __call__(self, x, skip):
        return self.conv(mx.concatenate([skip, self.up(x)], -1))


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.inc = DoubleConv(3, width)
        for i in range(4):
            self[f"down{i + 1}"] = Down(width << i, width << (i + 1))
            self[f"up{i + 1}"] = Up(width << (4 - i), width << (3 - i))
        self.outc = nn.Module()
        self.outc.conv = nn.Conv2d(width, 2, 1)

    def __call__(self, x):
        skips = [self.inc(channels_last(x))]
        for i in range(4):
            skips.append(self[f"down{i + 1}"](skips[-1]))
        x = skips.pop()
        for i in range(4):
            x = self[f"up{i + 1}"](x, skips.pop())
        return mx.moveaxis(self.outc.conv(x), -1, 1)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(40, 32), nn.LayerNorm(32)

    def __call__(self, tokens):
        return self.embed.as_linear(self.norm(self.embed(to_mlx(tokens))))


class Gpt2Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def __call__(self, x):
        n, t, d = x.shape
        q, k, v = (p.reshape(n, t, self.heads, -1).transpose(0, 2, 1, 3) for p in mx.split(self.c_attn(x), 3, -1))
        mask = nn.MultiHeadAttention.create_additive_causal_mask(t)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(d // self.heads), mask=mask)
        return self.c_proj(y.transpose(0, 2, 1, 3).reshape(n, t, d))


class Gpt2Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def __call__(self, x):
        return self.c_proj(nn.gelu_approx(self.c_fc(x)))


class Gpt2Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(dim), Gpt2Attention(dim, heads)
        self.ln_2, self.mlp = nn.LayerNorm(dim), Gpt2Mlp(dim)

    def __call__(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2):
        super().__init__()
        self.transformer = nn.Module()
        t = self.transformer
        t.wte, t.wpe = nn.Embedding(48, dim), nn.Embedding(16, dim)
        t.h = [Gpt2Block(dim, heads) for _ in range(layers)]
        t.ln_f = nn.LayerNorm(dim)

    def __call__(self, tokens):
        t = self.transformer
        x = t.wte(to_mlx(tokens)) + t.wpe(mx.arange(tokens.shape[1]))
        for block in t.h:
            x = block(x)
        return t.wte.as_linear(t.ln_f(x))


class SqueezeExciteNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm(16)
        self.se = nn.Module()
        self.se.fc1, self.se.fc2 = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.head = nn.Linear(16, 5)

    def __call__(self, x):
        x = nn.relu(self.bn(self.conv(channels_last(x))))
        x = x * mx.sigmoid(self.se.fc2(nn.relu(self.se.fc1(x.mean((1, 2), keepdims=True)))))
        return self.head(x.mean((1, 2)))


class RootSequential(nn.Module):
    """A bare torch Sequential lives under `layers`, which is what mlx.nn.Sequential calls its list."""

    def __init__(self):
        super().__init__()
        self.layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Identity(), nn.Linear(128, 10)]

    def __call__(self, x):
        x = self.layers[2](nn.relu(self.layers[0](channels_last(x))))
        return self.layers[4](mx.moveaxis(x, -1, 1).flatten(1))


def root_mlp():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


@dataclass
class Twin:
    """make: the MLX model. input: torch's input. run: calls the twin with it, giving torch's layout."""

    make: Callable
    input: Callable
    run: Callable = lambda twin, x: twin(x)
    torch_run: Callable = lambda model, x: model(x)


def image(*shape):
    return lambda: torch.randn(*shape)


def tokens(limit, *shape):
    return lambda: torch.randint(0, limit, shape)


TWINS = {
    "mnist_cnn": Twin(MnistCnn, image(2, 1, 28, 28)),
    "resblock_net": Twin(ResBlockNet, image(2, 3, 16, 16)),
    "resnet18": Twin(ResNet18, image(2, 3, 64, 64)),
    "encoder_layer": Twin(LoneEncoderLayer, image(2, 7, 32)),
    "text_encoder": Twin(TextEncoder, tokens(50, 2, 9)),
    "autoencoder_1d": Twin(Autoencoder1d, image(2, 2, 32)),
    "square_convs": Twin(SquareConvs, image(2, 3, 8, 9)),
    "square_transposed": Twin(SquareTransposed, image(2, 3, 8, 9)),
    "grouped": Twin(Grouped, image(2, 8, 8, 9)),
    "grouped_transposed": Twin(GroupedTransposed, image(2, 8, 6, 7)),
    "dcgan_generator": Twin(Generator, image(2, 20, 1, 1)),
    "unet": Twin(UNet, image(1, 3, 32, 32)),
    "tied": Twin(Tied, tokens(40, 2, 7)),
    "gpt2": Twin(Gpt2, tokens(48, 2, 10), torch_run=lambda model, x: model(x, use_cache=False).logits),
    "squeeze_excite": Twin(SqueezeExciteNet, image(2, 3, 12, 12)),
    "root_sequential": Twin(RootSequential, image(2, 3, 8, 8)),
    "root_mlp": Twin(root_mlp, image(4, 20), lambda twin, x: twin(to_mlx(x))),
}


def compare(name, model, weights):
    """Loads the file strictly into the twin; the largest difference of its output from torch's for one input."""
    entry = TWINS[name]
    twin = entry.make()
    twin.load_weights(weights, strict=True)
    twin.eval()
    torch.manual_seed(7)
    x = entry.input()
    with torch.no_grad():
        expected = entry.torch_run(model, x).numpy()
    actual = np.array(entry.run(twin, x))
    assert actual.shape == expected.shape, f"{actual.shape} is not {expected.shape}"
    return float(np.abs(actual - expected).max())
