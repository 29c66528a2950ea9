// Names of components: `create_table` becomes `CreateTable`.
export const pascal = (name: string): string =>
  name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
