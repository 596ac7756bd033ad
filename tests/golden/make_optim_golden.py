#!/usr/bin/python3
"""Writes optimizers.safetensors and schedules.safetensors with PyTorch (Debian's python3-torch, 1.13.1).

    tests/golden/make_optim_golden.py        # from anywhere; writes beside this script

What each holds is said above its function. What PyTorch 1.13 does not have (LAMB, LARS, Lion, Adafactor, Muon) is
compared with the paper's algorithm, written out in tests/optim.
"""
import torch
from make_golden import random, save

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, dict(lr=0.05)),
    "sgd_decay": (torch.optim.SGD, dict(lr=0.05, weight_decay=0.1)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.05, momentum=0.9)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1)),
    "adamw": (torch.optim.AdamW, dict(lr=0.05)),
    "adamw_options": (torch.optim.AdamW, dict(lr=0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.3)),
    "adam": (torch.optim.Adam, dict(lr=0.05)),
    "adam_decay": (torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.3)),
    "adam_amsgrad": (torch.optim.Adam, dict(lr=0.05, betas=(0.9, 0.7), amsgrad=True)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.01)),
    "rmsprop_options": (torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, eps=1e-3, weight_decay=0.1)),
    "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.01, centered=True)),
    "rmsprop_all": (torch.optim.RMSprop, dict(lr=0.01, alpha=0.8, momentum=0.9, weight_decay=0.1, centered=True)),
    "adagrad": (torch.optim.Adagrad, dict(lr=0.1)),
    "adagrad_options": (torch.optim.Adagrad, dict(lr=0.1, initial_accumulator_value=0.5, eps=1e-3, weight_decay=0.1)),
    "adadelta": (torch.optim.Adadelta, dict(lr=1.0)),
    "adadelta_options": (torch.optim.Adadelta, dict(lr=0.5, rho=0.7, eps=1e-3, weight_decay=0.1)),
}


def lbfgs(start, weights):
    """Parameters after each of 20 calls on sum(weights (p - 1)^2) + 0.1 sum(p^2)^2, of two iterations each."""
    parameter = start.clone().requires_grad_()
    optimizer, path = torch.optim.LBFGS([parameter], lr=0.5, max_iter=2, max_eval=9, history_size=3), []

    def closure():
        optimizer.zero_grad()
        loss = (weights * (parameter - 1).square()).sum() + 0.1 * parameter.square().sum().square()
        loss.backward()
        return loss

    for _ in range(20):
        optimizer.step(closure)
        path.append(parameter.detach().clone())
    return torch.stack(path)


def optimizers():
    """Parameters after each of 20 steps, float64: "<name>/steps" [20, 5] from "start" [5] and "grads" [20, 5]; for L-BFGS
    from "start" and "lbfgs/weights" [5]."""
    torch.manual_seed(8)
    start, grads, steps = random(5), random(20, 5), {}
    for name, (kind, options) in OPTIMIZERS.items():
        parameter = start.clone().requires_grad_()
        optimizer, path = kind([parameter], **options), []
        for grad in grads:
            parameter.grad = grad.clone()
            optimizer.step()
            path.append(parameter.detach().clone())
        steps[f"{name}/steps"] = torch.stack(path)
    weights = random(5, low=0.1, high=3)
    steps.update({"lbfgs/weights": weights, "lbfgs/steps": lbfgs(start, weights)})
    save("optimizers", {"start": start, "grads": grads, **steps})


SCHEDULERS = {
    "constant": (torch.optim.lr_scheduler.ConstantLR, dict(factor=1.0)),
    "step": (torch.optim.lr_scheduler.StepLR, dict(step_size=7, gamma=0.5)),
    "multi_step": (torch.optim.lr_scheduler.MultiStepLR, dict(milestones=[3, 10, 11, 30], gamma=0.5)),
    "exponential": (torch.optim.lr_scheduler.ExponentialLR, dict(gamma=0.9)),
    "cosine": (torch.optim.lr_scheduler.CosineAnnealingLR, dict(T_max=39, eta_min=0.01)),
    "restarts": (torch.optim.lr_scheduler.CosineAnnealingWarmRestarts, dict(T_0=7, eta_min=0.01)),
    "restarts_growing": (torch.optim.lr_scheduler.CosineAnnealingWarmRestarts, dict(T_0=5, T_mult=2)),
    "one_cycle": (torch.optim.lr_scheduler.OneCycleLR, dict(max_lr=0.4, total_steps=40)),
    "one_cycle_linear": (torch.optim.lr_scheduler.OneCycleLR, dict(
        max_lr=0.4, total_steps=40, pct_start=0.4, anneal_strategy="linear", div_factor=10, final_div_factor=100)),
    "polynomial": (torch.optim.lr_scheduler.PolynomialLR, dict(total_iters=30, power=2.0)),
    "linear": (torch.optim.lr_scheduler.LinearLR, dict(start_factor=0.25, end_factor=0.75, total_iters=30)),
}


def schedules():
    """Rates of 40 steps, from 0.4, float64: "<name>" [40]; and for the plateau "metrics" [40] and "plateau.<mode>" [40],
    the rate after each metric."""
    rates = {}
    for name, (kind, options) in SCHEDULERS.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
        scheduler, path = kind(optimizer, **options), []
        for _ in range(40):
            path.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if len(path) < 40:
                scheduler.step()
        rates[name] = torch.tensor(path, dtype=torch.float64)
    torch.manual_seed(9)
    metrics = random(40, low=0.5, high=1.0) * torch.linspace(1, 0.7, 40, dtype=torch.float64)
    rates["metrics"] = metrics
    plateaus = {
        "min": dict(mode="min", factor=0.5, patience=2),
        "max": dict(mode="max", factor=0.5, patience=2),
        "all": dict(mode="min", factor=0.5, patience=1, threshold=0.05, cooldown=3, min_lr=0.03),
    }
    for name, options in plateaus.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
        scheduler, path = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, eps=0, **options), []
        for metric in metrics:
            scheduler.step(metric.item())
            path.append(optimizer.param_groups[0]["lr"])
        rates[f"plateau.{name}"] = torch.tensor(path, dtype=torch.float64)
    save("schedules", rates)


if __name__ == "__main__":
    torch.set_num_threads(1)
    optimizers()
    schedules()
