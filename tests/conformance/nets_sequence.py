"""Small text, speech and signal networks with the structure and names of the originals."""

import math

import torch
from torch import nn


class TextEncoder(nn.Module):
    """nn.TransformerEncoder between an embedding and a classifier, with a sinusoidal buffer that the state dict
    holds."""

    def __init__(self, dim=32):
        super().__init__()
        self.embedding = nn.Embedding(50, dim)
        self.register_buffer("pe", torch.randn(1, 40, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Linear(dim, 5)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.pe[:, : tokens.shape[1]]
        return self.classifier(self.encoder(x).mean(1))


class Seq2Seq(nn.Module):
    """nn.TransformerDecoder with cross attention, final norm and no shared parts."""

    def __init__(self, dim=32):
        super().__init__()
        self.transformer_decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(dim, 4, 64, batch_first=True), 2, nn.LayerNorm(dim)
        )
        self.out = nn.Linear(dim, 20)


def encoder_layer():
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)


class TiedModel(nn.Module):
    """Embedding, LayerNorm and a head that is the embedding's table."""

    def __init__(self, vocabulary=40, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.norm(self.embed(tokens)))


class NanoAttention(nn.Module):
    """karpathy/nanoGPT: Linear c_attn, a causal mask buffer called bias."""

    def __init__(self, dim, block):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))


class NanoMlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)


class NanoBlock(nn.Module):
    def __init__(self, dim, block):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(dim), NanoAttention(dim, block)
        self.ln_2, self.mlp = nn.LayerNorm(dim), NanoMlp(dim)


class NanoGpt(nn.Module):
    def __init__(self, dim=32, block=16, vocabulary=48):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, dim),
                "wpe": nn.Embedding(block, dim),
                "h": nn.ModuleList([NanoBlock(dim, block) for _ in range(2)]),
                "ln_f": nn.LayerNorm(dim),
            }
        )
        self.lm_head = nn.Linear(dim, vocabulary, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight


class MixedAttention(nn.Module):
    """MultiheadAttention in its three packings: packed, with other key and value sizes, without biases."""

    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(32, 4)
        self.cross_attn = nn.MultiheadAttention(32, 4, kdim=64, vdim=96)
        self.plain = nn.MultiheadAttention(32, 4, bias=False)


class AudioEncoder(nn.Module):
    """openai/whisper's encoder: conv1 tells, conv2 is square."""

    def __init__(self, dim=32):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(20, dim, 3, padding=1), nn.Conv1d(dim, dim, 3, 2, 1)
        self.register_buffer("positional_embedding", torch.randn(30, dim))
        self.blocks = nn.ModuleList([AudioBlock(dim) for _ in range(2)])
        self.ln_post = nn.LayerNorm(dim)


class AudioAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)


class AudioBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attn, self.attn_ln = AudioAttention(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.mlp_ln = nn.LayerNorm(dim)


class ConvAutoencoder1d(nn.Module):
    """1-D convolutions down, 1-D transposed convolutions up, output_padding included."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(2, 8, 5, 2, 2), nn.ReLU(), nn.Conv1d(8, 16, 5, 2, 2), nn.ReLU())
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(16, 8, 5, 2, 2, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(8, 2, 5, 2, 2, output_padding=1),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


class WaveNetLayer(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.filter_conv = nn.Conv1d(dim, dim, 2, dilation=dilation)
        self.gate_conv = nn.Conv1d(dim, dim, 2, dilation=dilation)
        self.residual_conv, self.skip_conv = nn.Conv1d(dim, dim, 1), nn.Conv1d(dim, dim * 2, 1)


class WaveNet(nn.Module):
    """Gated dilated convolutions; most are square, with a bias that fits both readings."""

    def __init__(self, dim=8):
        super().__init__()
        self.start_conv = nn.Conv1d(12, dim, 1)
        self.layers = nn.ModuleList([WaveNetLayer(dim, 1 << i) for i in range(3)])
        self.end_conv_1, self.end_conv_2 = nn.Conv1d(dim * 2, dim * 2, 1), nn.Conv1d(dim * 2, 12, 1)


class VincentWaveNet(nn.Module):
    """The list-per-kind naming of another well-known WaveNet: filter_convs.0.weight ..., no biases but at the end."""

    def __init__(self, dim=8):
        super().__init__()
        conv = nn.Conv1d
        self.start_conv = conv(16, dim, 1, bias=False)
        self.filter_convs = nn.ModuleList([conv(dim, dim, 2, dilation=1 << i, bias=False) for i in range(3)])
        self.gate_convs = nn.ModuleList([conv(dim, dim, 2, dilation=1 << i, bias=False) for i in range(3)])
        self.residual_convs = nn.ModuleList([conv(dim, dim, 1, bias=False) for _ in range(3)])
        self.skip_convs = nn.ModuleList([conv(dim, 24, 1, bias=False) for _ in range(3)])
        self.end_conv_1, self.end_conv_2 = conv(24, 24, 1), conv(24, 16, 1)


class Awkward(nn.Module):
    """Names that an mlx.nn.Module cannot hold, at every level, and a numeric ModuleDict below the root."""

    def __init__(self):
        super().__init__()
        self._fc = nn.Linear(8, 8)
        self.keys, self.values = nn.Linear(8, 4), nn.Linear(8, 4, bias=False)
        self.add_module("lambda", nn.Linear(4, 4))
        self.heads = nn.ModuleDict({"class": nn.Linear(8, 3), "update_": nn.Linear(8, 2), "state": nn.Linear(8, 6)})
        self.register_parameter("_scale", nn.Parameter(torch.randn(8)))
        self.register_parameter("copy", nn.Parameter(torch.randn(3, 5)))
        self._attn = nn.MultiheadAttention(8, 2)


class Norms(nn.Module):
    """Normalisation layers of every kind, a two-dimensional LayerNorm among them, and PReLU."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.group_norm, self.instance_norm = nn.GroupNorm(4, 16), nn.InstanceNorm2d(16, affine=True)
        self.prelu = nn.PReLU(16)
        self.plane_norm = nn.LayerNorm((8, 64))
        self.cube_norm = nn.LayerNorm((16, 6, 6))
        self.rms = nn.RMSNorm(64)
        self.fc = nn.Linear(64, 64)


class Bare(nn.Module):
    """Bare parameters of every rank beside layers: tokens, tables, scales. None of them has a layout to change."""

    def __init__(self):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, 64))
        self.queries = nn.Parameter(torch.randn(10, 64))
        self.temperature = nn.Parameter(torch.tensor(0.07))
        self.layer_scale = nn.Parameter(torch.randn(1, 16, 1, 1))
        self.pos_table = nn.Parameter(torch.randn(1, 64, 8, 8))
        self.register_buffer("steps", torch.tensor([3, 1, 2]))
        self.register_buffer("mask", torch.ones(4, 4).tril().bool())
        self.proj = nn.Linear(64, 64)


class Policy(nn.Module):
    """stable-baselines3's names."""

    def __init__(self):
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(2))
        self.mlp_extractor = nn.Module()
        self.mlp_extractor.policy_net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mlp_extractor.value_net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.action_net, self.value_net = nn.Linear(64, 2), nn.Linear(64, 1)


class TutorialTransformer(nn.Module):
    """The language model of the PyTorch tutorial: its positional encoding is a buffer [T, 1, D]."""

    def __init__(self):
        super().__init__()
        position = torch.arange(20).unsqueeze(1)
        div = torch.exp(torch.arange(0, 32, 2) * (-math.log(10000.0) / 32))
        pe = torch.zeros(20, 1, 32)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.pos_encoder = nn.Module()
        self.pos_encoder.register_buffer("pe", pe)
        self.transformer_encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 2, 40), 1, enable_nested_tensor=False
        )
        self.embedding, self.linear = nn.Embedding(30, 32), nn.Linear(32, 30)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=48, n_positions=16, n_embd=32, n_layer=2, n_head=4)).eval()


def gpt2_bare():
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(vocab_size=48, n_positions=16, n_embd=32, n_layer=2, n_head=4)).eval()


def bert():
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=48,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=20,
    )
    return BertForSequenceClassification(config).eval()


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config).eval()


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=48,
        num_mel_bins=20,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=30,
        max_target_positions=20,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return WhisperForConditionalGeneration(config).eval()


def clip():
    from transformers import CLIPConfig, CLIPModel

    text = {
        "vocab_size": 48,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 8,
    }
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)).eval()


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=48, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return T5ForConditionalGeneration(config).eval()
