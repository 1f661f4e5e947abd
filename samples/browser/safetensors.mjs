// Tensors of a safetensors file whose digest was verified.

/** Returns the tensors of a safetensors file, each `{ shape, values }`. */
export function tensorsOf(content) {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(content.subarray(8, start)));
  const found = Object.entries(header).filter(([name]) => name !== '__metadata__');
  return Object.fromEntries(found.map(([name, { dtype, shape, data_offsets: [from, to] }]) => {
    const bytes = content.slice(start + from, start + to).buffer; // aligned
    const arrays = {
      U8: Uint8Array, U16: Uint16Array, U32: Uint32Array, F32: Float32Array, F64: Float64Array,
    };
    const values = dtype === 'F16' ? Float32Array.from(new Uint16Array(bytes), half)
      : new arrays[dtype](bytes);
    return [name, { shape, values }];
  }));
}

/** Returns the number that 16 bits stand for. */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 25) * (1024 + rest) : 2 ** -24 * rest);
}
