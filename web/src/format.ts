// SPDX-License-Identifier: Apache-2.0
// Formats numbers for display. Knows nothing of their meaning.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// Three digits, at most: "4.25 GiB", "42.5 GiB", "425 GiB".
export function bytes(n: number): string {
  let value = n;
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? String(Math.round(value)) : digits(value)} ${UNITS[unit]}`;
}

export function digits(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export const count = (n: number): string => Math.round(n).toLocaleString("en-US");

export function short(n: number): string {
  if (n < 10_000) return count(n);
  if (n < 1e6) return `${digits(n / 1e3)} K`;
  return n < 1e9 ? `${digits(n / 1e6)} M` : `${digits(n / 1e9)} G`;
}

export function percent(ratio: number, places = 1): string {
  return `${(ratio * 100).toFixed(places)} %`;
}

// "240 µs", "11.0 ms", "4.20 s", "3 min 05 s", "2 h 10 min", "3 d 4 h".
export function duration(seconds: number): string {
  if (seconds < 0) return "0 s";
  if (seconds < 1e-3) return seconds === 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 60) return `${digits(seconds)} s`;
  const whole = Math.floor(seconds);
  const two = (n: number): string => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor(whole / 3600) % 24} h`;
}

export function clock(unixMs: number): string {
  return new Date(unixMs).toLocaleTimeString("en-GB");
}

export const rate = (perSecond: number): string => `${bytes(perSecond)}/s`;

// Keys can have 64 KiB: the middle of a long key is left out.
export function shorten(key: string, most = 64): string {
  if (key.length <= most) return key;
  const end = Math.floor(most / 3);
  return `${key.slice(0, most - end - 1)}…${key.slice(-end)}`;
}
