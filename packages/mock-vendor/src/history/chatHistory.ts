import { isRecord, type JsonRecord } from '../shared/parameters.ts';
import type { VendorTraits } from '../shared/traits.ts';
import { badRequest, extraForbidden, type VendorError } from '../shared/vendorError.ts';
import { list, onlyMembers } from './members.ts';

const MESSAGE = 'role content name tool_call_id'.split(' ');
const SAID = 'role content name tool_calls function_call refusal audio annotations'.split(' ');
/** Mistral's messages have fewer. */
const FEWER = 'role content tool_calls tool_call_id name prefix'.split(' ');
const CALL = 'id type function custom index extra_content'.split(' ');
const NINE = /^[a-zA-Z0-9]{9}$/;

/** Throws the vendor's error for messages that no conversation with it has. */
export function checkChatHistory({ messages }: JsonRecord, traits: VendorTraits): void {
  const isMistral = traits.refusesStreamOptions;
  let open: string[] = [];
  for (const [at, message] of list(messages).entries()) {
    if (!isRecord(message)) continue;
    const path = `messages[${at}]`;
    const role = String(message.role);
    const known = isMistral ? FEWER : role === 'assistant' ? SAID : MESSAGE;
    onlyMembers(message, known, (name) => unknown(`${path}.${name}`, traits));
    if (role === 'tool') {
      if (!open.includes(String(message.tool_call_id)))
        throw badRequest(
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
          `${path}.role`,
        );
      open = open.filter((id) => id !== message.tool_call_id);
      continue;
    }
    if (open.length > 0) throw unanswered(open);
    open = list(message.tool_calls)
      .filter(isRecord)
      .map((call, index) => checkCall(call, `${path}.tool_calls[${index}]`, traits));
  }
  if (open.length > 0) throw unanswered(open);
}

function checkCall(call: JsonRecord, path: string, traits: VendorTraits): string {
  onlyMembers(call, CALL, (name) => unknown(`${path}.${name}`, traits));
  const id = String(call.id);
  if (traits.refusesStreamOptions && !NINE.test(id))
    throw badRequest(`Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`, `${path}.id`);
  const made = call.function;
  if (isRecord(made) && typeof made.arguments !== 'string')
    throw badRequest(
      `Invalid type for '${path}.function.arguments': expected a string.`,
      `${path}.function.arguments`,
      'invalid_type',
    );
  return id;
}

function unknown(path: string, traits: VendorTraits): VendorError {
  return traits.refusesStreamOptions
    ? extraForbidden(path)
    : badRequest(`Unknown parameter: '${path}'.`, path, 'unknown_parameter');
}

function unanswered(ids: readonly string[]): VendorError {
  return badRequest(
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${ids.join(', ')}`,
    'messages',
  );
}
