import {
  type BodyOf,
  callOperation,
  namedFields,
  type Operation,
  type operations,
  type ResultOf,
} from '@weighbridge/client';
import type { ReactNode } from 'react';
import { useChoicesOf } from '../api/choices.ts';
import { client } from '../api/client.ts';
import type { FieldSpec } from './fieldSpecs.ts';
import type { Texts } from './fields.tsx';
import { ConfirmModal, CreateModal, EditModal, type IfMatch, type Read, useDialog } from './resources.tsx';
import { namedBy, type ShownFields, specsOf } from './specs.ts';

type Id = keyof operations;

/** A kind of resource: how it is called, and the operations and fields of its dialogs. */
export interface Resource<Item> {
  readonly noun: string;
  /** Default: its name. */
  readonly nameOf?: (item: Item) => string;
  readonly read: Operation;
  readonly create?: Operation;
  readonly createVerb?: string;
  readonly update: Operation;
  readonly remove?: Operation;
  readonly removeVerb?: string;
  /** What a removal means. */
  readonly removal?: (item: Item) => string;
  readonly fields: ShownFields;
}

interface Change<Op extends Id> {
  readonly title: string;
  readonly submit: string;
  readonly danger?: boolean;
  readonly text: ReactNode;
  readonly body?: BodyOf<Op> | ((texts: Texts) => object);
  /** It is done whatever became of the resource meanwhile. */
  readonly isUnread?: boolean;
  readonly done?: (result: ResultOf<Op>) => unknown;
}

/** The dialogs of a page that make, change and remove resources of a kind. */
export function useResource<Item extends { readonly id: string }>(resource: Resource<Item>) {
  const { dialog, open, close: onClose } = useDialog();
  const { noun, fields, create, update, remove, createVerb = 'Create', removeVerb = 'Delete' } = resource;
  const nameOf = resource.nameOf ?? ((item) => (item as { name?: string }).name ?? item.id);
  const confirm = <Op extends Id>(of: Operation<Op>, { id }: Item, change: Change<Op>) => {
    const { text, body, isUnread = false, done, ...modal } = change;
    const act = async (header: IfMatch, texts: Texts) => {
      const sent = typeof body === 'function' ? (body as (texts: Texts) => object)(texts) : body;
      const result = await call(of, id, header, sent as object | undefined);
      return done?.(result);
    };
    const read = isUnread ? {} : { read: readerOf(resource.read, id) };
    open(
      <ConfirmModal {...modal} {...read} id={id} act={act} onClose={onClose}>
        {typeof text === 'string' ? <p>{text}</p> : text}
      </ConfirmModal>,
    );
  };
  return {
    dialog,
    open,
    close: onClose,
    confirm,
    create: (made?: (result: never) => unknown) => {
      if (!create) return;
      const title = `${createVerb} ${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`;
      open(<Create of={create} fields={fields} made={made} title={title} onClose={onClose} />);
    },
    edit: (item: Item) =>
      open(
        <Edit
          title={`Edit ${nameOf(item)}`}
          of={{ ...update, required: create?.required ?? [] }}
          id={item.id}
          read={readerOf(resource.read, item.id)}
          fields={fields}
          onClose={onClose}
        />,
      ),
    remove: (item: Item) => {
      if (!remove) return;
      const text = resource.removal?.(item);
      const [title, submit] = [`${removeVerb} ${nameOf(item)}`, `${removeVerb} the ${noun}`];
      confirm(remove, item, { title, submit, danger: true, text });
    },
  };
}

interface FieldsOf {
  readonly of: Operation;
  readonly fields: ShownFields;
  readonly title: string;
  readonly onClose: () => void;
}

function Create({ of, fields, made, ...modal }: FieldsOf & { made: ((made: never) => unknown) | undefined }) {
  const create = async (values: object) => {
    const result = await call(of, '', {}, values);
    return made?.(result as never);
  };
  return <CreateModal {...modal} specs={useSpecs(of, fields)} create={create} />;
}

function Edit({ of, fields, id, ...modal }: FieldsOf & { id: string; read: Read }) {
  const save = (body: object, header: IfMatch) => call(of, id, header, body);
  return <EditModal {...modal} id={id} specs={useSpecs(of, fields)} save={save} />;
}

/** The controls of an operation's fields, once the resources to choose from are known. */
export function useSpecs(
  operation: Operation,
  shown: ShownFields,
  isNew?: boolean,
): readonly FieldSpec[] | undefined {
  const named = namedFields(operation.body, shown).flatMap(({ name }) => namedBy(name) ?? []);
  const choices = useChoicesOf(named);
  return choices && specsOf(operation, shown, choices, isNew);
}

/** Calls an operation for the one that its path names. */
export async function call<Op extends Id>(
  operation: Operation<Op>,
  id: string,
  header: object = {},
  body?: object,
): Promise<ResultOf<Op>> {
  const params = { path: pathOf(operation, id), header };
  const { data } = await callOperation(client, operation, { params, ...(body && { body }) });
  return data as ResultOf<Op>;
}

export function readerOf(operation: Operation, id: string): Read {
  return () =>
    callOperation(client, operation, { params: { path: pathOf(operation, id) } }) as ReturnType<Read>;
}

function pathOf({ path }: Pick<Operation, 'path'>, id: string): Readonly<Record<string, string>> {
  const name = /\{(\w+)\}/.exec(path)?.[1];
  return name === undefined ? {} : { [name]: id };
}
