// The texture of an instance: the mean picture plus modes, as the pixels of an image.

// Pictures of 16-bit numbers, the mean first, become sums of them: blend(deviations) is an ImageData.
export function makeBlender(texture, buffer) {
  const length = texture.width * texture.height * texture.channels;
  const pictures = texture.factors.map((factor, k) => {
    const numbers = new Int16Array(buffer, 2 * length * k, length);
    // In shades of 8 bits, which is what images have.
    return Float32Array.from(numbers, (number) => number * factor * 255);
  });
  const sum = new Float32Array(length);
  const image = new ImageData(texture.width, texture.height);
  image.data.fill(255);
  return (deviations) => {
    sum.set(pictures[0]);
    deviations.forEach((deviation, mode) => {
      if (deviation) add(sum, pictures[mode + 1], deviation);
    });
    write(sum, texture.channels, image.data);
    return image;
  };
}

function add(sum, picture, factor) {
  for (let k = 0; k < sum.length; k++) sum[k] += factor * picture[k];
}

// Bytes of an ImageData stop at 0 and 255 by themselves.
function write(sum, channels, bytes) {
  for (let from = 0, to = 0; from < sum.length; from += channels, to += 4) {
    bytes[to] = sum[from];
    bytes[to + 1] = sum[channels === 3 ? from + 1 : from];
    bytes[to + 2] = sum[channels === 3 ? from + 2 : from];
  }
}
