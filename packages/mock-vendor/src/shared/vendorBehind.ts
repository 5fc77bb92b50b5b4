import type { ServerResponse } from 'node:http';

/** Asks the vendor behind a simulated cloud. Who leaves the cloud leaves that vendor, too. */
export async function askBehind(response: ServerResponse, url: string, init: RequestInit): Promise<Response> {
  const leaving = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) leaving.abort();
  });
  return await fetch(url, { ...init, signal: leaving.signal });
}

/** The text of a stream as it arrives, never split within an event. */
export async function* arrivingEvents(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of answer.body ?? []) {
    rest += decoder.decode(chunk, { stream: true });
    const end = rest.lastIndexOf('\n\n') + 2;
    if (end < 2) continue;
    yield rest.slice(0, end);
    rest = rest.slice(end);
  }
  if (rest !== '') yield rest;
}
