/** Names, in lower case, and their values, one after the other. */
export type HeaderList = string[];

/**
 * The headers of one answer, as they come to be known. A plain list is what Node's server takes with the least work: of an
 * object, and of headers that are set one by one, it checks and copies each several times.
 */
export class AnswerHeaders {
  readonly list: HeaderList;

  constructor(list: HeaderList = []) {
    this.list = list;
  }

  /** In the place of what was there under this name. */
  set(name: string, value: string): void {
    const at = this.#find(name);
    if (at < 0) this.list.push(name, value);
    else this.list[at + 1] = value;
  }

  delete(name: string): void {
    const at = this.#find(name);
    if (at >= 0) this.list.splice(at, 2);
  }

  /** For a change of its own. */
  copy(): AnswerHeaders {
    return new AnswerHeaders([...this.list]);
  }

  #find(name: string): number {
    const { list } = this;
    for (let at = 0; at < list.length; at += 2) if (list[at] === name) return at;
    return -1;
  }
}

/** A name as a header can hold it: what no header takes is percent-encoded (RFC 3986, section 2.1). */
export function headerText(name: string): string {
  return VISIBLE.test(name) ? name : name.replace(NOT_VISIBLE, encodeURIComponent);
}

const VISIBLE = /^[\x21-\x7e]+$/;
const NOT_VISIBLE = /[^\x21-\x7e]/gu;
