import { create } from '@bufbuild/protobuf';
import { ConnectorSchema, Route } from '@weighbridge/contracts';
import type { RoutableConnector, RoutableModel } from '@weighbridge/state';
import { expect, it } from 'vitest';
import { hintFor } from './modelTargets.ts';

const CHATS = ['tools'];
const EMBEDS = ['embeddings'];
const { CHAT_COMPLETIONS, MESSAGES, EMBEDDINGS, EMBED_CONTENT, GENERATE_CONTENT } = Route;

it('names a route at which the model works, of the same kind if there is one', () => {
  const rows: readonly [readonly string[], Route, readonly Route[], string][] = [
    [CHATS, EMBEDDINGS, [CHAT_COMPLETIONS], ' Use /v1/chat/completions.'],
    [CHATS, MESSAGES, [EMBEDDINGS, CHAT_COMPLETIONS], ' Use /v1/chat/completions.'],
    [
      EMBEDS,
      EMBEDDINGS,
      [CHAT_COMPLETIONS, GENERATE_CONTENT, EMBED_CONTENT],
      ' Use /v1beta/models/{model}:embedContent.',
    ],
    [EMBEDS, EMBED_CONTENT, [CHAT_COMPLETIONS, EMBEDDINGS], ' Use /v1/embeddings.'],
    [
      EMBEDS,
      CHAT_COMPLETIONS,
      [GENERATE_CONTENT, EMBED_CONTENT],
      ' Use /v1beta/models/{model}:embedContent.',
    ],
    [[], EMBED_CONTENT, [CHAT_COMPLETIONS, EMBEDDINGS], ' Use /v1/embeddings.'],
    [[], CHAT_COMPLETIONS, [Route.CONVERSE], ''],
  ];
  for (const [capabilities, route, routes, hint] of rows) {
    const message = create(ConnectorSchema, { id: 'c', routes: [...routes] });
    const connector: RoutableConnector = { ...message, serves: () => true, negotiated: new Map() };
    const model = { id: 'p/m', capabilities } as unknown as RoutableModel;
    expect([capabilities, route, hintFor(model, connector, route)]).toEqual([capabilities, route, hint]);
  }
});
