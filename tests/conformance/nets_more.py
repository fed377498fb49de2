"""More architectures, for their names and shapes alone (no forward): each asks the evidence rules something that the
others do not."""

import torch
from torch import nn


def tree(**children):
    """A plain module with these children."""
    module = nn.Module()
    for name, child in children.items():
        module.add_module(name, child)
    return module


class AlexNet(nn.Module):
    def __init__(self):
        super().__init__()
        conv = nn.Conv2d
        self.features = nn.Sequential(
            conv(3, 8, 11, 4, 2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            conv(8, 24, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            conv(24, 32, 3),
            nn.ReLU(),
            conv(32, 16, 3),
            nn.ReLU(),
            conv(16, 16, 3),
            nn.ReLU(),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
        )


class Fire(nn.Module):
    def __init__(self, i, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(i, squeeze, 1)
        self.expand1x1, self.expand3x3 = nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)


class SqueezeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2), Fire(16, 4, 8), Fire(16, 4, 8), Fire(16, 8, 8)
        )
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(16, 10, 1), nn.ReLU())


class BasicConv2d(nn.Module):
    def __init__(self, i, o, **arguments):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(i, o, bias=False, **arguments), nn.BatchNorm2d(o, eps=0.001)


class InceptionA(nn.Module):
    def __init__(self, i, pool):
        super().__init__()
        self.branch1x1 = BasicConv2d(i, 16, kernel_size=1)
        self.branch5x5_1, self.branch5x5_2 = BasicConv2d(i, 12, kernel_size=1), BasicConv2d(12, 16, kernel_size=5)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = BasicConv2d(i, 16, kernel_size=1), BasicConv2d(16, 24, kernel_size=3)
        self.branch3x3dbl_3 = BasicConv2d(24, 24, kernel_size=3)
        self.branch7x1 = BasicConv2d(24, 24, kernel_size=(7, 1))
        self.branch_pool = BasicConv2d(i, pool, kernel_size=1)


class Inception(nn.Module):
    """torchvision's Inception v3 parts: Conv2d_1a_3x3 and mixed blocks."""

    def __init__(self):
        super().__init__()
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3 = BasicConv2d(3, 8, kernel_size=3), BasicConv2d(8, 8, kernel_size=3)
        self.Conv2d_2b_3x3 = BasicConv2d(8, 16, kernel_size=3)
        self.Mixed_5b, self.Mixed_5c = InceptionA(16, 8), InceptionA(64, 16)
        self.fc = nn.Linear(64, 10)


class ShuffleUnit(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        half = o // 2
        if stride > 1:
            self.branch1 = nn.Sequential(
                nn.Conv2d(i, i, 3, stride, 1, groups=i, bias=False),
                nn.BatchNorm2d(i),
                nn.Conv2d(i, half, 1, bias=False),
                nn.BatchNorm2d(half),
            )
        else:
            self.branch1 = nn.Sequential()
        self.branch2 = nn.Sequential(
            nn.Conv2d(i if stride > 1 else half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(),
            nn.Conv2d(half, half, 3, stride, 1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(),
        )


class ShuffleNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.stage2 = nn.Sequential(ShuffleUnit(8, 20, 2), ShuffleUnit(20, 20, 1))
        self.stage3 = nn.Sequential(ShuffleUnit(20, 32, 2), ShuffleUnit(32, 32, 1))
        self.conv5 = nn.Sequential(nn.Conv2d(32, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.fc = nn.Linear(64, 10)


class YoloConv(nn.Module):
    def __init__(self, i, o, k=1, s=1, g=1):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o)


class C2f(nn.Module):
    def __init__(self, i, o, n=1):
        super().__init__()
        c = o // 2
        self.cv1, self.cv2 = YoloConv(i, 2 * c), YoloConv((2 + n) * c, o)
        self.m = nn.ModuleList([tree(cv1=YoloConv(c, c, 3), cv2=YoloConv(c, c, 3)) for _ in range(n)])


class Yolo(nn.Module):
    """ultralytics' names; the detection head mixes Conv blocks and bare convolutions with bias, dfl is a fixed 1x1
    kernel."""

    def __init__(self):
        super().__init__()
        head = tree(
            cv2=nn.ModuleList([nn.Sequential(YoloConv(32, 16, 3), YoloConv(16, 16, 3), nn.Conv2d(16, 64, 1))]),
            cv3=nn.ModuleList([nn.Sequential(YoloConv(32, 20, 3), YoloConv(20, 20, 3), nn.Conv2d(20, 20, 1))]),
            dfl=tree(conv=nn.Conv2d(16, 1, 1, bias=False)),
        )
        self.model = nn.Sequential(
            YoloConv(3, 8, 3, 2), YoloConv(8, 16, 3, 2), C2f(16, 16), YoloConv(16, 32, 3, 2), C2f(32, 32), head
        )


class Darknet(nn.Module):
    """eriklindernoren/PyTorch-YOLOv3: module_list.N.conv_N.weight beside module_list.N.batch_norm_N."""

    def __init__(self):
        super().__init__()
        self.module_list = nn.ModuleList()
        for n, (i, o, k) in enumerate([(3, 8, 3), (8, 16, 3), (16, 8, 1), (8, 16, 3), (16, 16, 3), (16, 21, 1)]):
            block = nn.Sequential()
            block.add_module(f"conv_{n}", nn.Conv2d(i, o, k, padding=k // 2, bias=n == 5))
            if n < 5:
                block.add_module(f"batch_norm_{n}", nn.BatchNorm2d(o))
            self.module_list.append(block)


class Edsr(nn.Module):
    """sanghyun-son/EDSR: square convolutions with bias all through the body, pixel shuffle in the tail."""

    def __init__(self, dim=16):
        super().__init__()
        conv = lambda i, o: nn.Conv2d(i, o, 3, padding=1)
        self.head = nn.Sequential(conv(3, dim))
        self.body = nn.Sequential(
            *[tree(body=nn.Sequential(conv(dim, dim), nn.ReLU(), conv(dim, dim))) for _ in range(2)], conv(dim, dim)
        )
        self.tail = nn.Sequential(nn.Sequential(conv(dim, 4 * dim), nn.PixelShuffle(2)), conv(dim, 3))


class BrainUNet(nn.Module):
    """mateuszbuda/brain-segmentation-pytorch: convolutions inside modules called decoder, upconvN transposed with
    bias."""

    def __init__(self, f=8):
        super().__init__()
        widths = [f, f * 2, f * 4]
        channels = 3
        for n, o in enumerate(widths, 1):
            setattr(self, f"encoder{n}", self.block(channels, o, f"enc{n}"))
            channels = o
        self.bottleneck = self.block(channels, f * 8, "bottleneck")
        channels = f * 8
        for n, o in reversed(list(enumerate(widths, 1))):
            setattr(self, f"upconv{n}", nn.ConvTranspose2d(channels, o, 2, 2))
            setattr(self, f"decoder{n}", self.block(o * 2, o, f"dec{n}"))
            channels = o
        self.conv = nn.Conv2d(f, 1, 1)

    @staticmethod
    def block(i, o, name):
        return tree(
            **{
                name + "conv1": nn.Conv2d(i, o, 3, padding=1, bias=False),
                name + "norm1": nn.BatchNorm2d(o),
                name + "conv2": nn.Conv2d(o, o, 3, padding=1, bias=False),
                name + "norm2": nn.BatchNorm2d(o),
            }
        )


class CycleGanGenerator(nn.Module):
    """junyanz/pytorch-CycleGAN: one Sequential holds convolutions, square residual blocks and transposed
    convolutions, all with bias."""

    def __init__(self, f=8):
        super().__init__()
        block = lambda: tree(
            conv_block=nn.Sequential(
                nn.ReflectionPad2d(1),
                nn.Conv2d(f * 4, f * 4, 3),
                nn.InstanceNorm2d(f * 4),
                nn.ReLU(),
                nn.ReflectionPad2d(1),
                nn.Conv2d(f * 4, f * 4, 3),
                nn.InstanceNorm2d(f * 4),
            )
        )
        self.model = nn.Sequential(
            nn.ReflectionPad2d(3),
            nn.Conv2d(3, f, 7),
            nn.InstanceNorm2d(f),
            nn.ReLU(),
            nn.Conv2d(f, f * 2, 3, 2, 1),
            nn.InstanceNorm2d(f * 2),
            nn.ReLU(),
            nn.Conv2d(f * 2, f * 4, 3, 2, 1),
            nn.InstanceNorm2d(f * 4),
            nn.ReLU(),
            block(),
            block(),
            nn.ConvTranspose2d(f * 4, f * 2, 3, 2, 1, 1),
            nn.InstanceNorm2d(f * 2),
            nn.ReLU(),
            nn.ConvTranspose2d(f * 2, f, 3, 2, 1, 1),
            nn.InstanceNorm2d(f),
            nn.ReLU(),
            nn.ReflectionPad2d(3),
            nn.Conv2d(f, 3, 7),
            nn.Tanh(),
        )


class StyleTransfer(nn.Module):
    """pytorch/examples fast_neural_style: ordinary convolutions inside modules called deconv."""

    def __init__(self, f=8):
        super().__init__()
        layer = lambda i, o, k: tree(conv2d=nn.Conv2d(i, o, k))
        norm = lambda o: nn.InstanceNorm2d(o, affine=True)
        self.conv1, self.in1 = layer(3, f, 9), norm(f)
        self.conv2, self.in2 = layer(f, f * 2, 3), norm(f * 2)
        self.conv3, self.in3 = layer(f * 2, f * 4, 3), norm(f * 4)
        for n in range(1, 3):
            block = tree(conv1=layer(f * 4, f * 4, 3), in1=norm(f * 4), conv2=layer(f * 4, f * 4, 3), in2=norm(f * 4))
            setattr(self, f"res{n}", block)
        self.deconv1, self.in4 = layer(f * 4, f * 2, 3), norm(f * 2)
        self.deconv2, self.in5 = layer(f * 2, f, 3), norm(f)
        self.deconv3 = layer(f, 3, 9)


class DiffusionBlock(nn.Module):
    def __init__(self, i, o, time):
        super().__init__()
        self.norm1, self.conv1, self.time_emb_proj = (
            nn.GroupNorm(4, i),
            nn.Conv2d(i, o, 3, padding=1),
            nn.Linear(time, o),
        )
        self.norm2, self.conv2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        if i != o:
            self.conv_shortcut = nn.Conv2d(i, o, 1)


def diffusion_attention(dim):
    linear = lambda **a: nn.Linear(dim, dim, **a)
    attn = tree(
        to_q=linear(bias=False),
        to_k=linear(bias=False),
        to_v=linear(bias=False),
        to_out=nn.ModuleList([linear(), nn.Dropout()]),
    )
    block = tree(
        norm1=nn.LayerNorm(dim),
        attn1=attn,
        norm3=nn.LayerNorm(dim),
        ff=tree(net=nn.ModuleList([tree(proj=nn.Linear(dim, 8 * dim))])),
    )
    return tree(
        norm=nn.GroupNorm(4, dim),
        proj_in=nn.Conv2d(dim, dim, 1),
        transformer_blocks=nn.ModuleList([block]),
        proj_out=nn.Conv2d(dim, dim, 1),
    )


class DiffusionUNet(nn.Module):
    """diffusers' UNet2DConditionModel: square convolutions with bias under down, mid and up; upsamplers.0.conv is an
    ordinary one."""

    def __init__(self):
        super().__init__()
        blocks = lambda *pairs: nn.ModuleList([DiffusionBlock(i, o, 32) for i, o in pairs])
        self.conv_in = nn.Conv2d(4, 8, 3, padding=1)
        self.time_embedding = tree(linear_1=nn.Linear(8, 32), linear_2=nn.Linear(32, 32))
        self.down_blocks = nn.ModuleList(
            [
                tree(
                    resnets=blocks((8, 8), (8, 8)),
                    attentions=nn.ModuleList([diffusion_attention(8)]),
                    downsamplers=nn.ModuleList([tree(conv=nn.Conv2d(8, 8, 3, 2, 1))]),
                ),
                tree(resnets=blocks((8, 16), (16, 16))),
            ]
        )
        self.mid_block = tree(resnets=blocks((16, 16), (16, 16)), attentions=nn.ModuleList([diffusion_attention(16)]))
        self.up_blocks = nn.ModuleList(
            [
                tree(
                    resnets=blocks((32, 16), (24, 16)),
                    upsamplers=nn.ModuleList([tree(conv=nn.Conv2d(16, 16, 3, padding=1))]),
                ),
                tree(resnets=blocks((24, 8), (16, 8))),
            ]
        )
        self.conv_norm_out, self.conv_out = nn.GroupNorm(4, 8), nn.Conv2d(8, 4, 3, padding=1)


class TextCnn(nn.Module):
    """Kim's CNN: Conv2d(1, n, (k, dim)) and, as many write it, Conv1d."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.convs = nn.ModuleList([nn.Conv2d(1, 10, (k, 32)) for k in [3, 4, 5]])
        self.convs_1d = nn.ModuleList([nn.Conv1d(32, 10, k) for k in [3, 4, 5]])
        self.fc = nn.Linear(60, 2)


class PointNet(nn.Module):
    """Shared MLPs as Conv1d with kernel 1, square at times, each with its BatchNorm beside and not behind it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 16, 1), nn.Conv1d(16, 16, 1), nn.Conv1d(16, 32, 1)
        self.fc1, self.fc2 = nn.Linear(32, 16), nn.Linear(16, 9)
        self.bn1, self.bn2, self.bn3, self.bn4 = (
            nn.BatchNorm1d(16),
            nn.BatchNorm1d(16),
            nn.BatchNorm1d(32),
            nn.BatchNorm1d(16),
        )


class Conformer(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        conv = tree(
            pointwise_conv1=nn.Conv1d(dim, 2 * dim, 1),
            depthwise_conv=nn.Conv1d(dim, dim, 15, padding=7, groups=dim),
            norm=nn.BatchNorm1d(dim),
            pointwise_conv2=nn.Conv1d(dim, dim, 1),
        )
        attention = tree(
            linear_q=nn.Linear(dim, dim),
            linear_pos=nn.Linear(dim, dim, bias=False),
        )
        attention.register_parameter("pos_bias_u", nn.Parameter(torch.randn(4, 8)))
        self.subsampling = tree(
            conv=nn.Sequential(nn.Conv2d(1, dim, 3, 2), nn.ReLU(), nn.Conv2d(dim, dim, 3, 2), nn.ReLU()),
            out=nn.Linear(dim * 4, dim),
        )
        self.layers = nn.ModuleList([tree(conv_module=conv, self_attn=attention, norm_conv=nn.LayerNorm(dim))])


class Mamba(nn.Module):
    """state-spaces/mamba: depthwise causal Conv1d, bare A_log and D."""

    def __init__(self, dim=32):
        super().__init__()
        mixer = tree(
            in_proj=nn.Linear(dim, 4 * dim, bias=False),
            conv1d=nn.Conv1d(2 * dim, 2 * dim, 4, groups=2 * dim, padding=3),
            x_proj=nn.Linear(2 * dim, 20, bias=False),
            dt_proj=nn.Linear(4, 2 * dim),
            out_proj=nn.Linear(2 * dim, dim, bias=False),
        )
        mixer.register_parameter("A_log", nn.Parameter(torch.randn(2 * dim, 8)))
        mixer.register_parameter("D", nn.Parameter(torch.ones(2 * dim)))
        self.backbone = tree(
            embedding=nn.Embedding(40, dim),
            layers=nn.ModuleList([tree(mixer=mixer, norm=nn.RMSNorm(dim))]),
            norm_f=nn.RMSNorm(dim),
        )
        self.lm_head = nn.Linear(dim, 40, bias=False)
        self.lm_head.weight = self.backbone.embedding.weight


class NatureCnn(nn.Module):
    """stable-baselines3's image policy."""

    def __init__(self):
        super().__init__()
        cnn = nn.Sequential(
            nn.Conv2d(4, 8, 8, 4),
            nn.ReLU(),
            nn.Conv2d(8, 16, 4, 2),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.features_extractor = tree(cnn=cnn, linear=nn.Sequential(nn.Linear(64, 32), nn.ReLU()))
        self.action_net, self.value_net = nn.Linear(32, 4), nn.Linear(32, 1)


class VqVae(nn.Module):
    """The usual VQ-VAE: residual stacks without bias, decoder with ordinary and transposed convolutions."""

    def __init__(self, h=16, r=8):
        super().__init__()
        residual = lambda: tree(
            _block=nn.Sequential(
                nn.ReLU(), nn.Conv2d(h, r, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(r, h, 1, bias=False)
            )
        )
        stack = lambda: tree(_layers=nn.ModuleList([residual(), residual()]))
        self._encoder = tree(
            _conv_1=nn.Conv2d(3, h // 2, 4, 2, 1),
            _conv_2=nn.Conv2d(h // 2, h, 4, 2, 1),
            _conv_3=nn.Conv2d(h, h, 3, padding=1),
            _residual_stack=stack(),
        )
        self._pre_vq_conv = nn.Conv2d(h, 6, 1)
        self._vq_vae = tree(_embedding=nn.Embedding(20, 6))
        self._decoder = tree(
            _conv_1=nn.Conv2d(6, h, 3, padding=1),
            _residual_stack=stack(),
            _conv_trans_1=nn.ConvTranspose2d(h, h // 2, 4, 2, 1),
            _conv_trans_2=nn.ConvTranspose2d(h // 2, 3, 4, 2, 1),
        )


class M5(nn.Module):
    """Raw-waveform classifier of the torchaudio tutorial."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(1, 8, 80, 16), nn.BatchNorm1d(8)
        self.conv2, self.bn2 = nn.Conv1d(8, 8, 3), nn.BatchNorm1d(8)
        self.conv3, self.bn3 = nn.Conv1d(8, 16, 3), nn.BatchNorm1d(16)
        self.fc1 = nn.Linear(16, 10)


class DeepLab(nn.Module):
    """torchvision's segmentation naming: backbone and ASPP head with its list of Sequentials."""

    def __init__(self):
        super().__init__()
        cbr = lambda i, o, k, **a: nn.Sequential(nn.Conv2d(i, o, k, bias=False, **a), nn.BatchNorm2d(o), nn.ReLU())
        pooling = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        aspp = tree(
            convs=nn.ModuleList([cbr(16, 8, 1), cbr(16, 8, 3, dilation=6), cbr(16, 8, 3, dilation=12), pooling]),
            project=cbr(32, 8, 1),
        )
        self.backbone = tree(conv1=nn.Conv2d(3, 16, 7, bias=False), bn1=nn.BatchNorm2d(16))
        self.classifier = nn.Sequential(
            aspp, nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 1)
        )
        self.aux_classifier = nn.Sequential(
            nn.Conv2d(16, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Conv2d(4, 5, 1)
        )
