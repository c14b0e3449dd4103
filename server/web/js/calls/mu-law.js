// G.711 μ-law, the sound of telephones: a byte is a sample, 8,000 a second. Pure.

export const RATE_HZ = 8000;

const BIAS = 33; // of 14 bits, which is what μ-law tells apart
const MOST = 8158;

// The byte of a sample of 16 bits.
export function encode(sample) {
  const size = Math.min(Math.abs(sample >> 2), MOST) + BIAS;
  const segment = 26 - Math.clz32(size);
  return ~((sample < 0 ? 0x80 : 0) | (segment << 4) | ((size >> (segment + 1)) & 0x0f)) & 0xff;
}

// The sample of 16 bits that a byte means.
export function decode(byte) {
  const bits = ~byte & 0xff;
  const size = ((((bits & 0x0f) << 1) + BIAS) << ((bits >> 4) & 0x07)) - BIAS;
  return 4 * (bits & 0x80 ? 0 - size : size);
}
