/** A cloud whose service has models of several makers, each behind the API of its maker. */
export type Cloud = 'aws' | 'google';
type CloudRoute = 'messages' | 'generate_content' | 'chat_completions' | 'converse';

/** The routes that the models of a cloud have. */
export const CLOUD_ROUTES: Readonly<Record<Cloud, readonly CloudRoute[]>> = {
  aws: ['messages', 'converse'],
  google: ['messages', 'generate_content', 'chat_completions'],
};

export function isCloud(kind: string | undefined): kind is Cloud {
  return kind === 'aws' || kind === 'google';
}

/** A model, by its id here and its name at the account. */
export interface NamedAtCloud {
  readonly id: string;
  readonly upstreamName: string;
}

/**
 * The route that a model has at a cloud. Claude at Bedrock has its own; `upstreamName` may be an ARN, and then the id tells. Vertex
 * AI's names are `claude-…`, `<publisher>/<model>` where it has the compatible API alone, and else Google's own.
 */
export function cloudRoute(cloud: Cloud, { id, upstreamName }: NamedAtCloud): CloudRoute {
  switch (cloud) {
    case 'aws':
      return /claude/.test(upstreamName) || /claude/.test(id) ? 'messages' : 'converse';
    case 'google':
      if (upstreamName.startsWith('claude-')) return 'messages';
      return upstreamName.includes('/') ? 'chat_completions' : 'generate_content';
  }
}
