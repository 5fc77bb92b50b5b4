import type { Loss } from '@weighbridge/dialects';
import type { RemovedTool } from '../formats/requestFindings.ts';
import type { PreparedRequest } from './preparedRequest.ts';
import { headerText } from './responseHeaders.ts';

const MAX_SHOWN = 8;
/** A caller names its fields as it likes, and a client takes few KiB of headers. */
const MAX_PATH = 80;
const NONE: readonly never[] = [];

type Removed = readonly Pick<RemovedTool, 'path' | 'tool'>[];

/**
 * Names the tools that did not go out, and what a translation dropped or changed: `tools[2] web_search, metadata.user_id changed,
 * messages.0.content.0.cache_control dropped and 3 more`. Empty if the vendor got all.
 */
export function droppedText(removed: Removed = NONE, losses: readonly Loss[] = NONE): string {
  const count = removed.length + losses.length;
  if (count === 0) return '';
  const others = count - MAX_SHOWN;
  return `${shown(removed, losses, headerText).join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
}

/** The same of an attempt, one text for each, as the ledger keeps it; its own are few enough for the space of a record. */
export function droppedFields({ modelRequest, translation }: PreparedRequest): readonly string[] {
  const removed = modelRequest?.generation.hard?.removedTools ?? NONE;
  const losses = translation?.losses ?? NONE;
  const count = removed.length + losses.length;
  if (count === 0) return NONE;
  const names = shown(removed, losses, asIs);
  if (count > MAX_SHOWN) names.push(`${count - MAX_SHOWN} more`);
  return names;
}

function shown(removed: Removed, losses: readonly Loss[], text: (path: string) => string): string[] {
  const tools = removed.slice(0, MAX_SHOWN).map(({ path, tool }) => `${path} ${tool}`);
  const fields = losses.slice(0, MAX_SHOWN - tools.length);
  return [...tools, ...fields.map(({ path, verdict }) => `${text(beginningOf(path))} ${verdict}`)];
}

/** Half a character, also one that the caller sent, has no encoding. */
function beginningOf(path: string): string {
  return Buffer.from(path.slice(0, MAX_PATH)).toString();
}

function asIs(path: string): string {
  return path;
}
