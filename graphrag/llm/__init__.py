"""Language models behind one seam (`base`), and the choice among them by settings (`registry`)."""
