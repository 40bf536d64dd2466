// Plays steps from the first to the last, then stops; where motion is unwelcome, slowly.

const STEPS_A_SECOND = 8;

export function makeIterationPlayer({ button, slider, changed }) {
  let timer = 0;

  const at = () => slider.valueAsNumber;
  const last = () => Number(slider.max);

  function stop() {
    clearInterval(timer);
    timer = 0;
    button.textContent = "▶ Play";
  }

  function play() {
    if (at() >= last()) move(0);
    const rate = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : STEPS_A_SECOND;
    button.textContent = "❚❚ Pause";
    timer = setInterval(() => {
      move(at() + 1);
      if (at() >= last()) stop();
    }, 1000 / rate);
  }

  function move(step) {
    slider.value = String(step);
    changed(at());
  }

  const toggle = () => (timer ? stop() : last() && play());
  button.addEventListener("click", toggle);
  slider.addEventListener("input", () => {
    stop();
    changed(at());
  });
  return {
    toggle,
    stop,
    // More steps have come: whoever looks at the end stays there.
    setLast(count) {
      const atEnd = at() >= last();
      slider.max = String(count);
      if (atEnd && !timer) slider.value = String(count);
      changed(at());
    },
  };
}
