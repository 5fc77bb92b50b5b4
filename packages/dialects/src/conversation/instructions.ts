import type { Message, ModelRequest, Part, TextPart } from '../ir/request.ts';
import type { WriteContext } from '../writeContext.ts';

/**
 * The system prompt and the conversation, for dialects whose conversation has no instructions. Those at the beginning belong to
 * the system prompt; later ones are told by the user, since there is no other way. So are all of them if nothing else is said:
 * such dialects require a conversation.
 */
export function splitInstructions(
  { system, messages }: ModelRequest,
  { losses }: WriteContext,
): { readonly system: readonly TextPart[]; readonly messages: readonly Message[] } {
  const first = messages.findIndex(({ role }) => role !== 'instruction');
  const asUser = (message: Message): Message => {
    if (message.role !== 'instruction') return message;
    for (const { path } of message.parts) losses.add(path, 'changed', 'it is sent as a text of the user');
    return { role: 'user', parts: message.parts };
  };
  if (first < 0) return { system, messages: messages.map(asUser) };
  const leading: readonly Part[] = messages.slice(0, first).flatMap(({ parts }) => parts);
  const texts = leading.filter((part) => {
    if (part.kind !== 'text') losses.add(part.path, 'refused', 'instructions take text only');
    return part.kind === 'text';
  });
  const rest = messages.slice(first).map((message) => asUser(marked(message)));
  return { system: [...system, ...texts], messages: rest };
}

/** Within a conversation of others, an instruction is told apart from what the user says. */
function marked(message: Message): Message {
  if (message.role !== 'instruction') return message;
  const parts = message.parts.map((part): Part => {
    return part.kind === 'text' ? { ...part, text: `<instructions>\n${part.text}\n</instructions>` } : part;
  });
  return { role: 'instruction', parts };
}
