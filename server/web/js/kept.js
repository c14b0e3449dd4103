// What a person chose and this browser keeps: language, theme, width. Works without storage too.

export const kept = {
  get(name) {
    try {
      return localStorage.getItem(`nodius.${name}`);
    } catch {
      return null;
    }
  },
  put(name, value) {
    try {
      localStorage.setItem(`nodius.${name}`, value);
    } catch {
      // chosen for this visit only
    }
  },
};
