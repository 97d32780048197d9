// SPDX-License-Identifier: Apache-2.0
// Keys are arbitrary bytes. The daemon sends a key as text, or as escaped text plus all bytes in
// hex; if those bytes are readable text after all, that text is shown.
export interface Named {
  key: string;
  hex?: string | undefined;
}

const READ_MAX = 4096; // Longer keys are not decoded for every row.
const decoder = new TextDecoder("utf-8", { fatal: true });

// The key itself, if it is readable text, without characters that hide or reorder text.
export function wholeText(of: Named, most = Infinity): string | undefined {
  if (of.hex === undefined) return of.key;
  if (of.hex.length / 2 > most) return undefined;
  const bytes = new Uint8Array(of.hex.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(of.hex.slice(2 * i, 2 * i + 2), 16);
  try {
    const text = decoder.decode(bytes);
    return /\p{C}/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

export const keyText = (of: Named): string => wholeText(of, READ_MAX) ?? of.key;
