// The steps of a fit, level after level: what each is called, its points, and its place in the charts.

export function stepsOf(fit) {
  const steps = fit.start ? [{ name: "start", points: fit.start }] : [];
  for (const level of fit.levels) {
    level.points.slice(1).forEach((points, k) => {
      steps.push({ name: `scale ${Number(level.scale.toPrecision(3))}, iteration ${k + 1}`, points });
    });
  }
  if (fit.points) steps.push({ name: "end", points: fit.points });
  return steps;
}

// Lines of a chart: one for each level, which goes on where the one before has ended.
export function linesOf(fit, valuesOf) {
  let done = 0;
  return fit.levels.map((level) => {
    const line = valuesOf(level).map((value, k) => [done + k, value]);
    done += Math.max(0, level.points.length - 1);
    return line;
  });
}

export const relativeCosts = ({ costs }) => costs.map((cost) => cost / (costs[0] || 1));
export const percentErrors = ({ errors }) => (errors ?? []).map((error) => 100 * error);
