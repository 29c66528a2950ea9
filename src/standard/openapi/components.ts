// The components of the OpenAPI document: each is stored under a name that says what it is, and is referenced everywhere else.

export type Json = Readonly<Record<string, unknown>>;

export interface OpenApiOptions {
  /** For generators of clients: without aliases, without media types of bodies other than JSON, and with whole schemas. */
  readonly forClients: boolean;
}

const kinds = ['schemas', 'parameters', 'headers', 'requestBodies', 'responses', 'links'] as const;
export type ComponentKind = (typeof kinds)[number];

interface Component {
  readonly value: Json;
  readonly text: string;
}

export class Components {
  readonly #byKind = new Map(kinds.map((kind) => [kind, new Map<string, Component>()]));

  /** Adds a component and returns the reference to it. Throws if another component has this name. */
  add(kind: ComponentKind, name: string, value: Json): Json {
    const named = this.#byKind.get(kind) as Map<string, Component>;
    const text = JSON.stringify(value);
    const existing = named.get(name);
    if (existing === undefined) named.set(name, { value, text });
    else if (existing.text !== text)
      throw new Error(`two ${kind} of the OpenAPI document are named ${name}:\n${existing.text}\n${text}`);
    return { $ref: `#/components/${kind}/${name}` };
  }

  toJson(): Json {
    return Object.fromEntries(
      [...this.#byKind].map(([kind, named]) => [
        kind,
        Object.fromEntries([...named].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, { value }]) => [name, value])),
      ]),
    );
  }
}
