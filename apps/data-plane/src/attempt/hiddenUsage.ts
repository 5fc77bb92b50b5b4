import { parseSmall } from '../formats/fieldReader.ts';
import { isRecord } from '../formats/jsonFields.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { ModelRequest, PreparedRequest } from './plan.ts';

/**
 * Whether a response that was not read to its end may have cost more than can be seen of it: reasoning that is not shown,
 * media, whose tokens can't be counted from their bytes, or tools that the vendor runs. `isInputKnown`: the vendor has
 * reported the input.
 */
export function mayHideUsage(
  { modelRequest }: PreparedRequest,
  { toolUses }: ResponseFacts,
  isInputKnown: boolean,
): boolean {
  if (!modelRequest) return false;
  for (const _ in toolUses) return true;
  if (mayReason(modelRequest)) return true;
  return modelRequest.generation.body.readJoined(
    (body) => HIDDEN_OUTPUT.some((marker) => body.includes(marker)) || (!isInputKnown && hasMedia(body)),
  );
}

/** The request asked the vendor to keep a part of the prompt in its cache for an hour. */
export function wroteForAnHour({ generation }: ModelRequest): boolean {
  return generation.body.readJoined((body) => {
    for (let at = body.indexOf(TTL); at >= 0; at = body.indexOf(TTL, at + TTL.length)) {
      if (ONE_HOUR.test(body.toString('latin1', at + TTL.length, at + TTL.length + 32))) return true;
    }
    return false;
  });
}

const TTL = '"ttl"';
const ONE_HOUR = /^\s*:\s*"1h"/;

/** Of a model without capabilities, no one has said that it does not. */
function mayReason({ model: { capabilities }, generation }: ModelRequest): boolean {
  const isKnownNotTo = capabilities.length > 0 && !capabilities.includes('reasoning');
  if (!generation.asksToReason && isKnownNotTo) return false;
  return !isSwitchedOff(generation);
}

/** A larger value is no setting. */
const MAX_SETTING_BYTES = 4_096;

/** The fields of a request that set how its model reasons; off by any of them. */
function isSwitchedOff({ body, spans }: ModelRequest['generation']): boolean {
  const settingOf = (field: string): unknown => {
    const span = spans.get(field);
    return body.readJoined((bytes) => parseSmall(bytes, span, MAX_SETTING_BYTES));
  };
  const reasoning = settingOf('reasoning');
  const thinking = settingOf('thinking');
  return (
    settingOf('reasoning_effort') === 'none' ||
    (isRecord(reasoning) && (reasoning.effort === 'none' || reasoning.enabled === false)) ||
    (isRecord(thinking) && thinking.type === 'disabled')
  );
}

/** What names tools of vendors, and output that is not text, in any dialect. A false hit charges the reservation. */
const HIDDEN_OUTPUT = [
  'web_search',
  'web_fetch',
  'file_search',
  'code_interpreter',
  'code_execution',
  'image_generation',
  'advisor_',
  '"mcp',
  '"modalities"',
  // Gemini's, in both spellings.
  '"googleSearch',
  '"google_search',
  '"googleMaps"',
  '"google_maps"',
  '"urlContext"',
  '"url_context"',
  '"fileSearch"',
  '"codeExecution"',
  '"responseModalities"',
  '"response_modalities"',
].map((marker) => Buffer.from(marker));

const MEDIA = [
  '"image_url"',
  '"input_image"',
  '"image"',
  '"input_audio"',
  '"audio"',
  '"input_file"',
  '"file"',
  '"document"',
  '"video_url"',
  // Gemini's, in both spellings.
  '"inlineData"',
  '"inline_data"',
  '"fileData"',
  '"file_data"',
].map((marker) => Buffer.from(marker));

function hasMedia(body: Buffer): boolean {
  return MEDIA.some((marker) => body.includes(marker));
}
