/** Names in lower case and their values, one after the other. */
export type HeaderList = string[];

/**
 * The headers of one response, collected as they become known. Node's server takes a flat list with the least work: it
 * checks and copies an object, or headers that are set one by one, several times.
 */
export class ResponseHeaders {
  readonly list: HeaderList;

  constructor(list: HeaderList = []) {
    this.list = list;
  }

  has(name: string): boolean {
    return this.#find(name) >= 0;
  }

  /** One that is not there yet. */
  add(name: string, value: string): void {
    this.list.push(name, value);
  }

  /** Replaces an earlier value. */
  set(name: string, value: string): void {
    const at = this.#find(name);
    if (at < 0) this.list.push(name, value);
    else this.list[at + 1] = value;
  }

  delete(name: string): void {
    const at = this.#find(name);
    if (at >= 0) this.list.splice(at, 2);
  }

  copy(): ResponseHeaders {
    return new ResponseHeaders([...this.list]);
  }

  #find(name: string): number {
    const { list } = this;
    for (let at = 0; at < list.length; at += 2) if (list[at] === name) return at;
    return -1;
  }
}

/** A name as a header can hold it: other characters are percent-encoded (RFC 3986, section 2.1). */
export function headerText(name: string): string {
  return VISIBLE.test(name) ? name : name.replace(NOT_VISIBLE, encodeURIComponent);
}

const VISIBLE = /^[\x21-\x7e]+$/;
const NOT_VISIBLE = /[^\x21-\x7e]/gu;
