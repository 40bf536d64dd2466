// Moves one mode back and forth until it is stopped; where motion is unwelcome, in five still steps.

const REACH = 2.5;
const PERIOD = 4000;
const STILLS = [0, 1.25, 2.5, 1.25, 0, -1.25, -2.5, -1.25];

export function makeModePlayer(setValue, changed) {
  let playing = null;
  let request = 0;
  let begun = 0;

  function frame(now) {
    if (!playing) return;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const share = (now - begun) / PERIOD;
    const value = calm ? STILLS[Math.floor(2 * share * 2) % STILLS.length] : REACH * Math.sin(2 * Math.PI * share);
    setValue(playing, Math.round(value * 100) / 100);
    request = requestAnimationFrame(frame);
  }

  const player = {
    get playing() {
      return playing;
    },
    stop() {
      cancelAnimationFrame(request);
      const before = playing;
      playing = null;
      if (before) changed(null);
    },
    // From the value that it has, so that nothing jumps.
    play(mode, value = 0) {
      player.stop();
      playing = mode;
      const phase = Math.asin(Math.max(-1, Math.min(1, value / REACH))) / (2 * Math.PI);
      begun = performance.now() - phase * PERIOD;
      changed(mode);
      request = requestAnimationFrame(frame);
    },
  };
  return player;
}
