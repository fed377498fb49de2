"""Small image networks with the structure and, above all, the names of the originals (torchvision, timm, well-known
repositories)."""

import torch
import torch.nn.functional as F
from torch import nn


class MnistCnn(nn.Module):
    """The example network of pytorch/examples."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.fc1 = nn.Linear(16 * 12 * 12, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(self.dropout1(x), 1)))
        return F.log_softmax(self.fc2(x), dim=1)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.downsample = downsample

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """torchvision.models.resnet, narrower."""

    def __init__(self, block=BasicBlock, layers=(2, 2, 2, 2), width=8, classes=10, expansion=1):
        super().__init__()
        self.inplanes, self.expansion = width, expansion
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for i, n in enumerate(layers):
            setattr(self, f"layer{i + 1}", self.make_layer(block, width << i, n, 1 if i == 0 else 2))
        self.n_layers = len(layers)
        self.fc = nn.Linear((width << (len(layers) - 1)) * expansion, classes)

    def make_layer(self, block, planes, n, stride):
        down, out = None, planes * self.expansion
        if stride != 1 or self.inplanes != out:
            down = nn.Sequential(nn.Conv2d(self.inplanes, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        blocks = [block(self.inplanes, planes, stride, down)]
        self.inplanes = out
        return nn.Sequential(*blocks, *[block(out, planes) for _ in range(1, n)])

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(self.n_layers):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


class ResBlockNet(nn.Module):
    """A stem, one plain and one strided residual block: the smallest net with a downsample branch."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        down = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
        self.blocks = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2, down))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.bn(self.stem(x)))).mean((2, 3)))


class Vgg(nn.Module):
    """torchvision.models.vgg11, narrower."""

    def __init__(self, batch_norm=False):
        super().__init__()
        layers, channels = [], 3
        for v in [8, "M", 16, "M", 32, 32, "M", 64, 64, "M", 64, 64, "M"]:
            if v == "M":
                layers.append(nn.MaxPool2d(2, 2))
                continue
            layers.append(nn.Conv2d(channels, v, 3, padding=1))
            layers += [nn.BatchNorm2d(v), nn.ReLU()] if batch_norm else [nn.ReLU()]
            channels = v
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(
            nn.Linear(64 * 4, 64),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(64, 10),
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def conv_bn_relu6(i, o, kernel=3, stride=1, groups=1):
    conv = nn.Conv2d(i, o, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(o), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, i, o, stride, expand):
        super().__init__()
        hidden = i * expand
        layers = [conv_bn_relu6(i, hidden, 1)] if expand != 1 else []
        layers += [
            conv_bn_relu6(hidden, hidden, 3, stride, hidden),
            nn.Conv2d(hidden, o, 1, bias=False),
            nn.BatchNorm2d(o),
        ]
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and i == o

    def forward(self, x):
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """torchvision.models.mobilenet_v2, narrower."""

    def __init__(self):
        super().__init__()
        layers, channels = [conv_bn_relu6(3, 8, stride=2)], 8
        for expand, o, n, stride in [(1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 24, 2, 1)]:
            for i in range(n):
                layers.append(InvertedResidual(channels, o, stride if i == 0 else 1, expand))
                channels = o
        layers.append(conv_bn_relu6(channels, 64, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, 10))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class EfficientBlock(nn.Module):
    """lukemelas/EfficientNet-PyTorch's MBConvBlock: every name begins with an underscore."""

    def __init__(self, i, o, expand):
        super().__init__()
        hidden = i * expand
        if expand != 1:
            self._expand_conv = nn.Conv2d(i, hidden, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(hidden)
        self._depthwise_conv = nn.Conv2d(hidden, hidden, 3, groups=hidden, bias=False)
        self._bn1 = nn.BatchNorm2d(hidden)
        self._se_reduce = nn.Conv2d(hidden, max(1, i // 4), 1)
        self._se_expand = nn.Conv2d(max(1, i // 4), hidden, 1)
        self._project_conv = nn.Conv2d(hidden, o, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(o)


class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        self._conv_stem = nn.Conv2d(3, 8, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(8)
        self._blocks = nn.ModuleList([EfficientBlock(8, 8, 1), EfficientBlock(8, 12, 6), EfficientBlock(12, 12, 6)])
        self._conv_head = nn.Conv2d(12, 64, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(64)
        self._fc = nn.Linear(64, 10)


class TimmAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)


class TimmMlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, dim * 4), nn.Linear(dim * 4, dim)


class TimmLayerScale(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), 1e-5))


class TimmBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(dim, 1e-6), TimmAttention(dim), TimmLayerScale(dim)
        self.norm2, self.mlp, self.ls2 = nn.LayerNorm(dim, 1e-6), TimmMlp(dim), TimmLayerScale(dim)


class PatchEmbed(nn.Module):
    def __init__(self, dim, patch=4):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)


class TimmViT(nn.Module):
    """timm's VisionTransformer (DeiT, DINOv2 names with layer scale)."""

    def __init__(self, dim=32, depth=2):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, dim))
        self.patch_embed = PatchEmbed(dim)
        self.blocks = nn.Sequential(*[TimmBlock(dim) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 10)


class EncoderBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim)
        self.self_attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * 2), nn.GELU(), nn.Dropout(0.0), nn.Linear(dim * 2, dim), nn.Dropout(0.0)
        )


class Encoder(nn.Module):
    def __init__(self, dim, depth, tokens):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, tokens, dim))
        self.layers = nn.Sequential()
        for i in range(depth):
            self.layers.add_module(f"encoder_layer_{i}", EncoderBlock(dim))
        self.ln = nn.LayerNorm(dim)


class TorchvisionViT(nn.Module):
    def __init__(self, dim=32, depth=2):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.conv_proj = nn.Conv2d(3, dim, 4, 4)
        self.encoder = Encoder(dim, depth, 17)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(dim, 10))


class WindowAttention(nn.Module):
    """Swin: a learned table, and an int64 index buffer that is part of the state dict."""

    def __init__(self, dim, window, heads):
        super().__init__()
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        self.register_buffer("relative_position_index", torch.randint(0, (2 * window - 1) ** 2, (window**2, window**2)))
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)


class SwinBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), WindowAttention(dim, 4, 2)
        self.register_buffer("attn_mask", torch.zeros(4, 16, 16))
        self.norm2, self.mlp = nn.LayerNorm(dim), TimmMlp(dim)


class PatchMerging(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.reduction, self.norm = nn.Linear(4 * dim, 2 * dim, bias=False), nn.LayerNorm(4 * dim)


class Swin(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.patch_embed = PatchEmbed(dim)
        self.patch_embed.norm = nn.LayerNorm(dim)
        self.layers = nn.ModuleList([nn.Module(), nn.Module()])
        self.layers[0].blocks = nn.ModuleList([SwinBlock(dim), SwinBlock(dim)])
        self.layers[0].downsample = PatchMerging(dim)
        self.layers[1].blocks = nn.ModuleList([SwinBlock(dim * 2)])
        self.norm, self.head = nn.LayerNorm(dim * 2), nn.Linear(dim * 2, 10)


class CNBlock(nn.Module):
    """torchvision.models.convnext.CNBlock: layer scale [C, 1, 1], depthwise 7x7 with bias."""

    def __init__(self, dim):
        super().__init__()
        self.layer_scale = nn.Parameter(torch.full((dim, 1, 1), 1e-6))
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim),
            nn.Identity(),
            nn.LayerNorm(dim, 1e-6),
            nn.Linear(dim, 4 * dim),
            nn.GELU(),
            nn.Linear(4 * dim, dim),
            nn.Identity(),
        )


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16))
        down = nn.Sequential(nn.LayerNorm(16), nn.Conv2d(16, 32, 2, 2))
        self.features = nn.Sequential(stem, nn.Sequential(CNBlock(16), CNBlock(16)), down, nn.Sequential(CNBlock(32)))
        self.classifier = nn.Sequential(nn.LayerNorm(32), nn.Flatten(1), nn.Linear(32, 10))


class ConvNextBlock4d(nn.Module):
    """The variant that keeps channels first throughout: layer scale [1, C, 1, 1] and 1x1 convolutions."""

    def __init__(self, dim):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.pwconv1, self.pwconv2 = nn.Conv2d(dim, 4 * dim, 1), nn.Conv2d(4 * dim, dim, 1)
        self.gamma = nn.Parameter(torch.full((1, dim, 1, 1), 1e-6))


class ConvNext4d(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, 4)
        self.stages = nn.ModuleList([ConvNextBlock4d(16), ConvNextBlock4d(16)])
        self.head = nn.Linear(16, 10)


class DenseLayer(nn.Module):
    """torchvision's _DenseLayer: the norm stands before its convolution and tells the input channels."""

    def __init__(self, i, growth, bottleneck):
        super().__init__()
        self.norm1, self.relu1 = nn.BatchNorm2d(i), nn.ReLU()
        self.conv1 = nn.Conv2d(i, bottleneck * growth, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(bottleneck * growth), nn.ReLU()
        self.conv2 = nn.Conv2d(bottleneck * growth, growth, 3, padding=1, bias=False)


class DenseNet(nn.Module):
    def __init__(self, growth=4, init=8):
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, init, 7, 2, 3, bias=False))
        self.features.add_module("norm0", nn.BatchNorm2d(init))
        channels = init
        for b, n in enumerate([2, 3]):
            block = nn.Module()
            for i in range(n):
                block.add_module(f"denselayer{i + 1}", DenseLayer(channels + i * growth, growth, 4))
            channels += n * growth
            self.features.add_module(f"denseblock{b + 1}", block)
            if b == 0:
                transition = nn.Module()
                transition.norm, transition.relu = nn.BatchNorm2d(channels), nn.ReLU()
                transition.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)
                channels //= 2
                self.features.add_module("transition1", transition)
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, 10)


class SqueezeExcite(nn.Module):
    def __init__(self, dim, reduced):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(dim, reduced, 1), nn.Conv2d(reduced, dim, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class SqueezeExciteNet(nn.Module):
    """torchvision's SE (1x1 convolutions called fc1, fc2) between convolutions, as in EfficientNet and RegNet."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.se = SqueezeExcite(16, 4)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.se(F.relu(self.bn(self.conv(x)))).mean((2, 3)))


class PreActBlock(nn.Module):
    """kuangliu/pytorch-cifar's PreActBlock: bn1, conv1, bn2, conv2, and a bare convolution as shortcut."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(i), nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(o), nn.Conv2d(o, o, 3, 1, 1, bias=False)
        if stride != 1 or i != o:
            self.shortcut = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False))


class PreActResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.layer1 = nn.Sequential(PreActBlock(8, 8, 1), PreActBlock(8, 8, 1))
        self.layer2 = nn.Sequential(PreActBlock(8, 16, 2), PreActBlock(16, 16, 1))
        self.linear = nn.Linear(16, 10)
