// Addresses of pictures that a sandbox made.

// A document rather than pixels: opened by itself, it runs what is in it.
export const mayHoldScripts = (type: string): boolean => !/^image\/(?!svg)[a-z0-9.-]+$/.test(type);

const kStepBytes = 0x8000; // so many arguments a function takes

// An address that has no origin, wherever it is opened.
export function dataAddress(type: string, data: Uint8Array): string {
  let text = '';
  for (let at = 0; at < data.length; at += kStepBytes)
    text += String.fromCharCode(...data.subarray(at, at + kStepBytes));
  return `data:${type};base64,${btoa(text)}`;
}
