import { writeJson } from '../json/writeJson.ts';

/** A server-sent event. */
export function namedFrame(name: string, data: object): string {
  return `event: ${name}\ndata: ${writeJson(data)}\n\n`;
}

/** A server-sent event without a name. */
export function dataFrame(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
