// Keys are any bytes. What the daemon tells of one is its text, or escaped text and all
// its bytes as hex; where those are readable text after all, that is shown.
export interface Named {
  key: string;
  hex?: string | undefined;
}

const READ_MAX = 4096; // Longer ones are not looked at whole for every row.
const decoder = new TextDecoder("utf-8", { fatal: true });

// The key itself, if it is text that can be read: nothing in it that hides or turns.
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
