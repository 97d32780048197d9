// SPDX-License-Identifier: Apache-2.0
// Requests to the daemon. The password stays in this tab: in memory and in sessionStorage, never in
// a URL or a cookie.

const STORED = "spillway-password";
let password = sessionStorage.getItem(STORED) ?? "";

export class ApiError extends Error {
  constructor(
    readonly status: number, // 0: no answer.
    message: string,
  ) {
    super(message);
  }
}

export function setPassword(word: string): void {
  password = word;
  if (word === "") sessionStorage.removeItem(STORED);
  else sessionStorage.setItem(STORED, word);
}

export const hasPassword = (): boolean => password !== "";

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (password !== "") headers.set("Authorization", `Bearer ${password}`);
  let response: Response;
  try {
    // Without credentials the browser does not open its own password dialog.
    response = await fetch(path, { ...init, headers, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "the daemon does not answer");
  }
  if (response.ok) return response;
  let why = response.statusText;
  try {
    why = ((await response.json()) as { error?: string }).error ?? why;
  } catch {
    // Not JSON.
  }
  throw new ApiError(response.status, why);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await ask(path, signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await response.json()) as T;
}

// A key for a query: as text or, if it is not text, as hex.
export function keyQuery(key: string, hex?: string): string {
  return hex === undefined ? `key=${encodeURIComponent(key)}` : `hex=${hex}`;
}
