/** A response as it stands in what a connection received. */
export interface WireAnswer {
  readonly status: number;
  readonly body: string;
  /** False if the connection ended within it. */
  readonly isWhole: boolean;
}

/** The final responses in a text, in order. `rest`: what is none, which a client would take for something else. */
export function answersIn(text: string): { readonly answers: readonly WireAnswer[]; readonly rest: string } {
  const answers: WireAnswer[] = [];
  let at = 0;
  while (at < text.length) {
    const head = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[!-9;-~]+:[^\r\n]*\r\n)*)\r\n/.exec(text.slice(at));
    if (!head) return { answers, rest: text.slice(at) };
    const [whole, status = '', headers = ''] = head;
    at += whole.length;
    if (status.startsWith('1')) continue;
    const body = bodyAt(text, at, Number(status), headers.toLowerCase());
    answers.push({ status: Number(status), body: body.text, isWhole: body.isWhole });
    if (!body.isWhole) return { answers, rest: body.rest };
    at = body.end;
  }
  return { answers, rest: '' };
}

interface Body {
  readonly text: string;
  readonly end: number;
  readonly isWhole: boolean;
  readonly rest: string;
}

function bodyAt(text: string, at: number, status: number, headers: string): Body {
  const none = { text: '', end: at, isWhole: true, rest: '' };
  if (status === 204 || status === 304) return none;
  if (/^transfer-encoding: *chunked\r$/m.test(headers)) return chunkedAt(text, at);
  const given = /^content-length: *(\d+)\r$/m.exec(headers)?.[1];
  // For HTTP/1.0, the end of the connection is the end of the body.
  if (given === undefined && status === 200)
    return { text: text.slice(at), end: text.length, isWhole: true, rest: '' };
  const length = Number(given ?? 0);
  const found = text.slice(at, at + length);
  // A response to HEAD has a length and no body.
  if (found.startsWith('HTTP/1.1 ') || (found === '' && length > 0)) return none;
  return { text: found, end: at + length, isWhole: found.length === length, rest: '' };
}

function chunkedAt(text: string, from: number): Body {
  let body = '';
  for (let at = from; ; ) {
    const line = /^([0-9a-f]+)\r\n/i.exec(text.slice(at, at + 40));
    if (!line) {
      const rest = text.slice(at);
      // The connection may end anywhere, also within a length.
      const isCut = /^[0-9a-f]*\r?$/i.test(rest);
      return { text: body, end: text.length, isWhole: false, rest: isCut ? '' : rest };
    }
    const length = Number.parseInt(line[1] ?? '', 16);
    const start = at + line[0].length;
    body += text.slice(start, start + length);
    if (length === 0) {
      const isWhole = text.slice(start, start + 2) === '\r\n';
      return { text: body, end: start + 2, isWhole, rest: '' };
    }
    at = start + length + 2;
    if (at > text.length) return { text: body, end: text.length, isWhole: false, rest: '' };
  }
}
