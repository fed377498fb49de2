"""The models that the suite converts, the forms in which torch saves them, random values that betray any mistake."""

import copy
from dataclasses import dataclass
from typing import Callable

import safetensors.torch
import torch
from torch import nn

import nets_convs as c
import nets_more as m
import nets_sequence as s
import nets_vision as v

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}


@dataclass
class Entry:
    """layers: what a caller has to say when only names and shapes are left ("" where nobody needs to be asked)."""

    build: Callable[[], nn.Module]
    layers: str = ""


ZOO = {
    "mnist_cnn": Entry(v.MnistCnn),
    "resblock_net": Entry(v.ResBlockNet),
    "resnet18": Entry(v.ResNet),
    "resnet50": Entry(lambda: v.ResNet(v.Bottleneck, (2, 2), 8, 10, 4)),
    "preact_resnet": Entry(v.PreActResNet),
    "vgg11": Entry(v.Vgg),
    "vgg11_bn": Entry(lambda: v.Vgg(batch_norm=True)),
    "mobilenet_v2": Entry(v.MobileNetV2),
    "efficientnet": Entry(v.EfficientNet),
    "densenet": Entry(v.DenseNet),
    "squeeze_excite": Entry(v.SqueezeExciteNet),
    "convnext": Entry(v.ConvNext),
    "convnext_4d": Entry(v.ConvNext4d),
    "vit_timm": Entry(v.TimmViT),
    "vit_torchvision": Entry(v.TorchvisionViT),
    "swin": Entry(v.Swin),
    "unet": Entry(c.UNet),
    "dcgan_generator": Entry(c.Generator),
    "dcgan_discriminator": Entry(c.Discriminator),
    "conv_vae": Entry(c.ConvVae),
    "video": Entry(c.Video),
    "square_convs": Entry(c.SquareConvs),
    "square_transposed": Entry(c.SquareTransposed, "up1:ConvTranspose1d,up2:ConvTranspose2d"),
    "grouped": Entry(c.Grouped),
    "grouped_transposed": Entry(c.GroupedTransposed),
    "root_sequential": Entry(c.root_sequential),
    "root_mlp": Entry(c.root_mlp),
    "autoencoder_1d": Entry(s.ConvAutoencoder1d),
    "wavenet": Entry(s.WaveNet),
    "wavenet_lists": Entry(s.VincentWaveNet),
    "audio_encoder": Entry(s.AudioEncoder),
    "text_encoder": Entry(s.TextEncoder),
    "encoder_layer": Entry(s.encoder_layer),
    "decoder": Entry(s.Seq2Seq),
    "tutorial_transformer": Entry(s.TutorialTransformer),
    "tied": Entry(s.TiedModel),
    "nanogpt": Entry(s.NanoGpt),
    "attention": Entry(s.MixedAttention),
    "awkward_names": Entry(s.Awkward),
    "norms": Entry(s.Norms),
    "bare_parameters": Entry(s.Bare),
    "policy": Entry(s.Policy),
    "alexnet": Entry(m.AlexNet),
    "squeezenet": Entry(m.SqueezeNet),
    "inception": Entry(m.Inception),
    "shufflenet_v2": Entry(m.ShuffleNetV2),
    "yolo": Entry(m.Yolo),
    "darknet": Entry(m.Darknet),
    "edsr": Entry(m.Edsr, "body.*:Conv2d"),
    "brain_unet": Entry(m.BrainUNet),
    "cyclegan": Entry(m.CycleGanGenerator),
    "style_transfer": Entry(m.StyleTransfer),
    "diffusion_unet": Entry(m.DiffusionUNet, "*.upsamplers.*:Conv2d"),
    "text_cnn": Entry(m.TextCnn),
    "pointnet": Entry(m.PointNet),
    "conformer": Entry(m.Conformer),
    "mamba": Entry(m.Mamba),
    "nature_cnn": Entry(m.NatureCnn),
    "vq_vae": Entry(m.VqVae),
    "m5": Entry(m.M5),
    "deeplab": Entry(m.DeepLab),
    "gpt2": Entry(s.gpt2),
    "gpt2_bare": Entry(s.gpt2_bare),
    "bert": Entry(s.bert),
    "llama": Entry(s.llama),
    "whisper": Entry(s.whisper),
    "clip": Entry(s.clip),
    "t5": Entry(s.t5),
}


def build(name, dtype="f32"):
    """The model with random values in everything, in eval mode."""
    torch.manual_seed(1000 + list(ZOO).index(name))
    model = ZOO[name].build().eval()
    randomize(model)
    return model.to(DTYPES[dtype])


@torch.no_grad()
def randomize(model):
    """Norms, biases and statistics start as ones and zeros: a swap of them would go unseen."""
    for parameter in model.parameters():
        if parameter.dim() < 2 or parameter.numel() == parameter.shape[0]:
            parameter.add_(torch.randn_like(parameter) * 0.1)
        elif parameter.eq(parameter.flatten()[0]).all():
            parameter.normal_(0, 0.1)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.2)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
        elif name.endswith("num_batches_tracked"):
            buffer.fill_(7)


def adam_state(model):
    """The state dict of a real Adam after one step of a copy."""
    twin = copy.deepcopy(model)
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-3)
    for parameter in twin.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    optimizer.step()
    return optimizer.state_dict()


# Each form writes the model to a path. None: all keys of the state dict are in the file; else those that are.


def save_state_dict(model, path):
    torch.save(model.state_dict(), path)


def save_training(model, path):
    torch.save(
        {"epoch": 3, "model_state_dict": model.state_dict(), "optimizer_state_dict": adam_state(model), "loss": 0.25},
        path,
    )


def save_lightning(model, path):
    optimizer = adam_state(model)
    torch.save(
        {
            "state_dict": model.state_dict(),
            "optimizer_states": [optimizer],
            "arch": "net",
            "best_acc1": torch.tensor(71.5),
        },
        path,
    )


def save_data_parallel(model, path):
    torch.save(nn.DataParallel(model).state_dict(), path)


def save_compiled(model, path):
    torch.save(torch.compile(model).state_dict(), path)


def save_whole(model, path):
    torch.save(model, path)


def save_safetensors(model, path):
    safetensors.torch.save_model(model, str(path))
    with safetensors.safe_open(path, framework="pt") as f:
        return list(f.keys())


FORMS = {
    "state_dict": save_state_dict,
    "training": save_training,
    "lightning": save_lightning,
    "data_parallel": save_data_parallel,
    "compiled": save_compiled,
    "whole": save_whole,
    "safetensors": save_safetensors,
}

# Forms in which the file says the class of every module.
TYPED = {"whole"}
