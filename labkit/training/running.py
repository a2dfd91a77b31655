"""A run from where it stands to its end, with a progress bar; and who is told of each evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tqdm.auto import tqdm

if TYPE_CHECKING:
    from labkit.training.trainer import Trainer

STRIDE = 10  # steps between two looks at the bar


def save_and_tell(trainer: Trainer, figures: dict[str, float]) -> None:
    """After an evaluation: write what is due, then call the callbacks. Where one of them ends the run, all that has been
    computed is on disk first."""
    folder = trainer.folder
    trainer.world.on_main(lambda: None if folder is None else folder.save(trainer.state_dict, trainer.recorder, trainer.done))
    try:
        for callback in trainer.callbacks:
            callback(trainer, figures)
    except BaseException:
        if trainer.folder is not None and not trainer.done:
            trainer.folder.save(trainer.state_dict, trainer.recorder, done=False, must=True)
        raise


def run_to_the_end(trainer: Trainer, progress: bool) -> None:
    """Step until the run is over; whatever stops it before, what was recorded is on disk."""
    total = trainer.experiment.steps
    with tqdm(total=total, initial=trainer.steps_done, desc=trainer.experiment.name, disable=not progress) as bar:
        try:
            while not trainer.done:
                before = trainer.steps_done
                trainer.step(min(STRIDE, total - trainer.steps_done))
                bar.update(trainer.steps_done - before)
                if "map_at_r" in trainer.recorder.metrics:
                    score = trainer.recorder.metrics["map_at_r"][-1]
                    bar.set_postfix({"MAP@R": f"{score:.3f}", "problem": len(trainer.recorder.problems)}, refresh=False)
        finally:
            if trainer.folder is not None and trainer.recorder.steps:
                trainer.folder.record(trainer.recorder.recording())
