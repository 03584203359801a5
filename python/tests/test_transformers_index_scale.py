"""The gradient of the indexers of dsa(k) follows whatever autograd does to the model's loss."""
import pathlib
import subprocess
import sys

import fovea
import pytest
import torch

import hf


def sparse(**sizes):
    made = fovea.sparsify(hf.model("llama"), "dsa(5)", index_heads=2, index_width=16, **sizes).train()
    return made, [p for name, p in made.named_parameters() if "fovea_indexer" in name]


def gradients(made, parameters):
    found = torch.cat([p.grad.flatten() for p in parameters])
    made.zero_grad()
    assert found.abs().sum() > 0
    return found


def test_a_factor_of_the_loss_is_one_of_the_gradient():
    made, own = sparse()
    ids = hf.tokens()
    made(ids, labels=ids).loss.backward()
    expected = gradients(made, own)
    for factor in (1 / 8, 1024.0):
        (made(ids, labels=ids).loss * factor).backward()
        torch.testing.assert_close(gradients(made, own), expected * factor)
    made(ids, labels=ids).loss.mul(0).add(1).log().backward()
    assert all((p.grad == 0).all() for p in own)


def test_accumulation_is_the_mean():
    made, own = sparse()
    rows = [hf.tokens(1, seed=seed) for seed in range(4)]
    expected = 0
    for ids in rows:
        made(ids, labels=ids).loss.backward()
        expected = expected + gradients(made, own) / 4
    for ids in rows:
        (made(ids, labels=ids).loss / 4).backward()
    torch.testing.assert_close(gradients(made, own), expected)


def test_two_calls_before_one_backward():
    made, own = sparse()
    ids, more = hf.tokens(), hf.tokens(seed=9)
    made(ids, labels=ids).loss.backward()
    expected = 3 * gradients(made, own)
    made(more, labels=more).loss.backward()
    expected += gradients(made, own) / 2
    (3 * made(ids, labels=ids).loss + made(more, labels=more).loss / 2).backward()
    torch.testing.assert_close(gradients(made, own), expected)


def test_a_grad_scaler_is_undone():
    made, own = sparse()
    ids = hf.tokens()
    made(ids, labels=ids).loss.backward()
    expected = gradients(made, own)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    scaler.scale(made(ids, labels=ids).loss).backward()
    scaler.unscale_(optimizer)
    torch.testing.assert_close(gradients(made, own), expected)


def test_the_loss_and_its_value_stay():
    made, _ = sparse()
    ids = hf.tokens()
    training = made(ids, labels=ids).loss
    with torch.no_grad():
        assert torch.equal(training, made(ids, labels=ids).loss)
    as_tuple = made(ids, labels=ids, return_dict=False)[0]
    assert torch.equal(as_tuple, training)


def test_a_tuple_teaches_too():
    made, own = sparse()
    ids = hf.tokens()
    made(ids, labels=ids).loss.backward()
    expected = gradients(made, own)
    made(ids, labels=ids, return_dict=False)[0].backward()
    torch.testing.assert_close(gradients(made, own), expected)


def test_a_loss_divided_by_the_tokens_of_a_whole_step():
    """As the Trainer calls a model: the sum of each call's loss over the tokens of all calls of a step."""
    made, own = sparse()
    calls = [hf.tokens(1, 21, seed=1), hf.tokens(1, 11, seed=2)]
    expected, counts = 0, [20, 10]
    for ids, count in zip(calls, counts):
        made(ids, labels=ids).loss.backward()
        expected = expected + gradients(made, own) * count / 30
    for ids in calls:
        made(ids, labels=ids, num_items_in_batch=torch.tensor(30)).loss.backward()
    torch.testing.assert_close(gradients(made, own), expected)


def test_a_loss_of_the_callers_own():
    made, own = sparse()
    ids = hf.tokens()
    made(ids, labels=ids).loss.backward()
    expected = gradients(made, own)

    def own_loss():
        logits = made(ids).logits[:, :-1].flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten())

    loss = own_loss()
    (0.5 * (loss + fovea.transformers.index_loss(made))).backward()
    torch.testing.assert_close(gradients(made, own), 0.5 * expected)
    with pytest.raises(ValueError, match="no loss of indexers waits; call the model in training mode, with dsa.k. and without"):
        fovea.transformers.index_loss(made)
    own_loss()
    with pytest.warns(UserWarning, match="the model gave no loss, so its indexers did not learn; pass labels, or add"):
        own_loss()


def test_reentrant_checkpointing_is_refused():
    made, _ = sparse()
    made.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(ValueError, match="reentrant gradient checkpointing, which drops the loss of dsa.k.'s indexers; call"):
        made(hf.tokens(), labels=hf.tokens())


def compare_in_a_group():
    made, own = sparse()
    ids = hf.tokens()
    made(ids, labels=ids).loss.backward()
    expected = gradients(made, own)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    wrapped = torch.nn.parallel.DistributedDataParallel(made)
    (wrapped(ids, labels=ids).loss / 2).backward()
    torch.testing.assert_close(gradients(made, own), expected / 2)


# Runs compare_in_a_group() and ends the process without destroying the group: destroy_process_group() holds the
# interpreter's lock and waits for gloo's thread, which may wait for that lock to drop the last Python object of a work.
IN_A_PROCESS = """
import os, sys, traceback
sys.path[:0] = sys.argv[1:]
code = 1
try:
    import test_transformers_index_scale
    test_transformers_index_scale.compare_in_a_group()
    code = 0
except BaseException:
    traceback.print_exc()
finally:
    sys.stderr.flush()
    os._exit(code)
"""


def test_data_parallel_means():
    """DistributedDataParallel divides gradients by the number of processes; alone it leaves them."""
    here = pathlib.Path(__file__).resolve().parent
    done = subprocess.run([sys.executable, "-c", IN_A_PROCESS, str(here), str(pathlib.Path(fovea.__file__).parent.parent)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_trainer_accumulates_the_same_step(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is missing: pip install accelerate")
    from transformers import Trainer, TrainingArguments

    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            ids = hf.tokens(1, seed=i)[0]
            return {"input_ids": ids, "labels": ids.clone()}

    def trained(size):
        made, own = sparse()
        arguments = TrainingArguments(output_dir=str(tmp_path / str(size)), per_device_train_batch_size=size, max_steps=1,
                                      gradient_accumulation_steps=8 // size, learning_rate=0.1, optim="sgd",
                                      lr_scheduler_type="constant", max_grad_norm=0.5, report_to=[], use_cpu=True,
                                      save_strategy="no", disable_tqdm=True)
        Trainer(model=made, args=arguments, train_dataset=Texts()).train()
        return torch.cat([p.detach().flatten() for p in own])

    whole, parts = trained(8), trained(2)
    start = torch.cat([p.detach().flatten() for p in sparse()[1]])
    assert (whole - start).abs().max() > 1e-5
    torch.testing.assert_close(parts - start, whole - start, rtol=1e-3, atol=1e-6)
