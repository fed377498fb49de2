"""How training tools lay out what they save: TOOLS names each, with the path of the weights and a function that makes the object."""

import argparse

import numpy as np
import torch
from torch import nn


def weights():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).state_dict()


class Detector(nn.Module):
    """A model as YOLO's: layers that know where they stand."""

    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU())
        for i, layer in enumerate(self.model):
            layer.i, layer.f, layer.type, layer.np = i, -1, "Conv", 3
        self.yaml, self.names, self.stride, self.hyp = (
            {"nc": 2},
            {0: "cat"},
            torch.tensor([8.0, 16.0]),
            argparse.Namespace(lr=0.1),
        )


TOOLS = {
    "lightning": ("state_dict", lambda: {"epoch": 1, "global_step": 5, "pytorch-lightning_version": "2.0.0", "state_dict": weights(), "loops": {"fit": {"n": torch.ones(2)}}, "callbacks": {Detector: {"best": torch.tensor(1.0)}}, "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(9, 9)}}}], "lr_schedulers": [{"last": 3}], "hyper_parameters": argparse.Namespace(a=1)}),
    "deepspeed": ("module", lambda: {"module": weights(), "buffer_names": ["1.running_mean"], "optimizer": {"fp32": torch.ones(500)}, "param_shapes": [{"0.weight": torch.Size([4, 3, 3, 3])}], "ds_version": "0.1", "dp_world_size": 1, "mp_world_size": 1}),
    "fairseq": ("model", lambda: {"args": argparse.Namespace(arch="x"), "cfg": None, "model": weights(), "criterion": {}, "optimizer_history": [{"num_updates": 4}], "last_optimizer_state": {"state": {0: {"exp_avg": torch.ones(300)}}}, "extra_state": {"epoch": 1, "rng": torch.ones(5)}}),
    "timm": ("state_dict", lambda: {"epoch": 2, "arch": "resnet", "state_dict": weights(), "optimizer": {"state": {0: {"momentum_buffer": torch.ones(300)}}}, "version": 2, "args": argparse.Namespace(), "amp_scaler": {"scale": 2.0}, "metric": 0.7}),
    "whisper": ("model_state_dict", lambda: {"dims": {"n_mels": 80}, "model_state_dict": weights()}),
    "rvc": ("weight", lambda: {"weight": {k: v.half() for k, v in weights().items()}, "config": [1, 2, [3]], "info": "1epoch", "sr": "40k", "f0": 1, "version": "v2"}),
    "peft": ("", lambda: {f"base_model.model.layers.{i}.q_proj.lora_{x}.weight": torch.randn(2, 8) for i in range(2) for x in "AB"}),
    "mmcv": ("state_dict", lambda: {"meta": {"epoch": 1, "config": "a = 1", "CLASSES": ("cat",)}, "state_dict": weights(), "optimizer": {"state": {0: {"momentum_buffer": torch.ones(200)}}}}),
    "yolo": ("model", lambda: {"epoch": -1, "best_fitness": np.float64(0.5), "model": Detector().half(), "ema": None, "updates": None, "optimizer": None, "date": "2020"}),
    "yolo_ema": ("ema", lambda: {"epoch": -1, "model": None, "ema": Detector().half(), "updates": 10, "optimizer": {"state": {0: {"exp_avg": torch.ones(300)}}}, "train_args": {}}),
    "esrgan": ("params_ema", lambda: {"params_ema": weights(), "params": weights()}),
    "megatron": ("model", lambda: {"args": argparse.Namespace(), "checkpoint_version": 3.0, "iteration": 5, "model": {"language_model": {"embedding": {"word": {"weight": torch.randn(5, 4)}}, "encoder": weights()}}, "optimizer": {"state": {0: torch.ones(300)}}, "rng_state": [torch.ones(4)]}),
    "resemblyzer": ("model_state", lambda: {"step": 1, "model_state": weights(), "optimizer_state": {"state": {0: {"exp_avg": torch.ones(300)}}}}),
}  # fmt: skip
