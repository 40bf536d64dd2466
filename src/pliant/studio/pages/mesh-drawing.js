// A texture drawn on a mesh whose points move: by WebGL, or triangle by triangle on a plain canvas without it.

// A painter has setTexture(image), draw(points) and dispose(); points are pixels of the canvas, centres at whole numbers.
export function makeMeshPainter(canvas, mesh, { plain = false } = {}) {
  const gl = plain ? null : canvas.getContext("webgl2", { antialias: true, premultipliedAlpha: true });
  return gl ? webglPainter(canvas, gl, mesh) : canvasPainter(canvas, mesh);
}

const VERTEX = `#version 300 es
in vec2 place;
in vec2 texel;
uniform vec2 canvas;
uniform vec2 frame;
out vec2 spot;
void main() {
  vec2 share = (place + 0.5) / canvas;
  gl_Position = vec4(2.0 * share.x - 1.0, 1.0 - 2.0 * share.y, 0.0, 1.0);
  spot = (texel + 0.5) / frame;
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec2 spot;
uniform sampler2D picture;
out vec4 colour;
void main() { colour = vec4(texture(picture, spot).rgb, 1.0); }`;

function webglPainter(canvas, gl, mesh) {
  let parts = prepared(gl, mesh);
  let lastImage = null;
  let lastPoints = null;
  const alive = new AbortController();
  const painter = {
    kind: "webgl",
    // What a graphics card holds is not collected when it is forgotten.
    dispose() {
      alive.abort();
      gl.deleteProgram(parts.program);
      for (const buffer of parts.buffers) gl.deleteBuffer(buffer);
      gl.deleteTexture(parts.texture);
    },
    setTexture(image) {
      lastImage = image;
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, image);
    },
    draw(points) {
      lastPoints = points;
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      if (!points || !lastImage) return;
      gl.uniform2f(parts.canvas, canvas.width, canvas.height);
      gl.bindBuffer(gl.ARRAY_BUFFER, parts.places);
      gl.bufferData(gl.ARRAY_BUFFER, Float32Array.from(points), gl.DYNAMIC_DRAW);
      gl.drawElements(gl.TRIANGLES, parts.count, gl.UNSIGNED_SHORT, 0);
    },
  };
  // A graphics card may take its memory back, after sleep for instance.
  canvas.addEventListener("webglcontextlost", (event) => event.preventDefault(), { signal: alive.signal });
  canvas.addEventListener(
    "webglcontextrestored",
    () => {
      parts = prepared(gl, mesh);
      if (lastImage) painter.setTexture(lastImage);
      painter.draw(lastPoints);
    },
    { signal: alive.signal },
  );
  return painter;
}

function prepared(gl, { triangles, vertices, width, height }) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  gl.useProgram(program);
  const texels = attribute(gl, program, "texel", Float32Array.from(vertices.flat()));
  const places = attribute(gl, program, "place", new Float32Array(2 * vertices.length));
  // The first triangle counts where they overlap, so it is drawn last.
  const corners = Uint16Array.from([...triangles].reverse().flat());
  const order = gl.createBuffer();
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, order);
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  for (const [name, value] of [
    [gl.TEXTURE_MIN_FILTER, gl.LINEAR],
    [gl.TEXTURE_MAG_FILTER, gl.LINEAR],
    [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
    [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
  ]) {
    gl.texParameteri(gl.TEXTURE_2D, name, value);
  }
  gl.uniform2f(gl.getUniformLocation(program, "frame"), width, height);
  const buffers = [texels, places, order];
  return { program, buffers, texture, places, count: corners.length, canvas: gl.getUniformLocation(program, "canvas") };
}

function attribute(gl, program, name, values) {
  const buffer = gl.createBuffer();
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
  const place = gl.getAttribLocation(program, name);
  gl.enableVertexAttribArray(place);
  gl.vertexAttribPointer(place, 2, gl.FLOAT, false, 0, 0);
  return buffer;
}

function canvasPainter(canvas, { triangles, vertices, width, height }) {
  const context = canvas.getContext("2d");
  const texture = Object.assign(document.createElement("canvas"), { width, height });
  const fromLast = [...triangles].reverse();
  return {
    kind: "canvas",
    dispose() {},
    setTexture(image) {
      texture.getContext("2d").putImageData(image, 0, 0);
    },
    draw(points) {
      context.clearRect(0, 0, canvas.width, canvas.height);
      if (!points) return;
      for (const corners of fromLast) {
        drawTriangle(
          context,
          texture,
          corners.map((k) => [vertices[k][0] + 0.5, vertices[k][1] + 0.5]),
          corners.map((k) => [points[2 * k] + 0.5, points[2 * k + 1] + 0.5]),
        );
      }
    },
  };
}

// The affine map that takes three corners of the texture to three of the canvas, clipped to these.
function drawTriangle(context, texture, from, to) {
  const [[ax, ay], [bx, by], [cx, cy]] = from;
  const area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
  if (!area) return;
  const rows = [0, 1].map((axis) => {
    const [a, b, c] = to.map((corner) => corner[axis]);
    const alongX = ((b - a) * (cy - ay) - (c - a) * (by - ay)) / area;
    const alongY = ((c - a) * (bx - ax) - (b - a) * (cx - ax)) / area;
    return [alongX, alongY, a - alongX * ax - alongY * ay];
  });
  const middle = [0, 1].map((axis) => (to[0][axis] + to[1][axis] + to[2][axis]) / 3);
  context.save();
  context.beginPath();
  for (const [x, y] of to) {
    // A little larger than it is: otherwise the ground shines through between two triangles.
    const [dx, dy] = [x - middle[0], y - middle[1]];
    const wider = 1 + 0.7 / (Math.hypot(dx, dy) || 1);
    context.lineTo(middle[0] + dx * wider, middle[1] + dy * wider);
  }
  context.clip();
  context.setTransform(rows[0][0], rows[1][0], rows[0][1], rows[1][1], rows[0][2], rows[1][2]);
  context.drawImage(texture, 0, 0);
  context.restore();
}
