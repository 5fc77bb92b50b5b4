import type { Loss } from '@weighbridge/dialects';
import { headerText } from '../attempt/responseHeaders.ts';
import type { RemovedTool } from '../formats/requestFindings.ts';

const MAX_SHOWN = 8;
/** A caller names its fields as it likes, and a client takes few KiB of headers. */
const MAX_PATH = 80;
const NONE: readonly never[] = [];

/**
 * Names the tools that did not go out, and what a translation dropped or changed: `tools[2] web_search, metadata.user_id changed,
 * messages.0.content.0.cache_control dropped and 3 more`. Empty if the vendor got all.
 */
export function droppedText(
  removed: readonly Pick<RemovedTool, 'path' | 'tool'>[] = NONE,
  losses: readonly Loss[] = NONE,
): string {
  if (removed.length === 0 && losses.length === 0) return '';
  const all = [
    ...removed.map(({ path, tool }) => `${path} ${tool}`),
    ...losses.map(({ path, verdict }) => `${headerText(shown(path))} ${verdict}`),
  ];
  const first = all.slice(0, MAX_SHOWN);
  const others = all.length - first.length;
  return `${first.join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
}

/** The beginning of a path; half a character, also one that the caller sent, has no encoding. */
function shown(path: string): string {
  return Buffer.from(path.slice(0, MAX_PATH)).toString();
}
